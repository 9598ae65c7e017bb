from collections.abc import Iterable

from google.protobuf.message import Message

class FieldDescriptorProto(Message):
    name: str
    number: int
    label: int
    type: int
    type_name: str
    json_name: str
    proto3_optional: bool
    oneof_index: int

class OneofDescriptorProto(Message):
    name: str

class MessageOptions(Message):
    map_entry: bool

class MethodDescriptorProto(Message): ...

class _Fields:
    def add(
        self, *, name: str, number: int, label: int, type: int = ..., json_name: str = ...
    ) -> FieldDescriptorProto: ...

class _Oneofs:
    def __len__(self) -> int: ...
    def add(self, *, name: str) -> OneofDescriptorProto: ...

class _Messages:
    def add(self, *, name: str) -> DescriptorProto: ...

class _Methods:
    def add(
        self, *, name: str, input_type: str, output_type: str, server_streaming: bool = ...
    ) -> MethodDescriptorProto: ...

class _Services:
    def add(self, *, name: str) -> ServiceDescriptorProto: ...

class _Texts:
    def extend(self, texts: Iterable[str]) -> None: ...

class DescriptorProto(Message):
    name: str
    options: MessageOptions
    @property
    def field(self) -> _Fields: ...
    @property
    def nested_type(self) -> _Messages: ...
    @property
    def oneof_decl(self) -> _Oneofs: ...

class ServiceDescriptorProto(Message):
    @property
    def method(self) -> _Methods: ...

class FileDescriptorProto(Message):
    def __init__(self, *, name: str = ..., package: str = ..., syntax: str = ...) -> None: ...
    @property
    def dependency(self) -> _Texts: ...
    @property
    def message_type(self) -> _Messages: ...
    @property
    def service(self) -> _Services: ...
