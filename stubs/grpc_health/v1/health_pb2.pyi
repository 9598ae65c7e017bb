from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message

DESCRIPTOR: FileDescriptor

class HealthCheckRequest(Message): ...

class HealthCheckResponse(Message):
    SERVING: int
    NOT_SERVING: int
    status: int
    def __init__(self, status: int = 0) -> None: ...
