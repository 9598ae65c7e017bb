from collections.abc import AsyncIterable, AsyncIterator, Iterable

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from grpc.aio import ServicerContext

class ReflectionServicer:
    def __init__(self, service_names: Iterable[str], pool: DescriptorPool | None = None) -> None: ...
    def ServerReflectionInfo(
        self, request_iterator: AsyncIterable[Message], context: ServicerContext
    ) -> AsyncIterator[Message]: ...
