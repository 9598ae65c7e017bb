from google.protobuf.descriptor_pb2 import FileDescriptorProto, MessageOptions

class FileDescriptor:
    def CopyToProto(self, proto: FileDescriptorProto) -> None: ...

class FieldDescriptor:
    message_type: Descriptor | None
    is_repeated: bool

class Descriptor:
    name: str
    full_name: str
    def GetOptions(self) -> MessageOptions: ...
