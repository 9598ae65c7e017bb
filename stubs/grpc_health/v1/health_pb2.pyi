from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message

DESCRIPTOR: FileDescriptor

class HealthCheckRequest(Message): ...

class HealthCheckResponse(Message):
    SERVING: int
