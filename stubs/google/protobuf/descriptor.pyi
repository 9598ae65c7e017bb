from google.protobuf.descriptor_pb2 import FileDescriptorProto

class FileDescriptor:
    def CopyToProto(self, proto: FileDescriptorProto) -> None: ...

class Descriptor:
    name: str
