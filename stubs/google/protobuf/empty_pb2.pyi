from google.protobuf.descriptor import FileDescriptor

DESCRIPTOR: FileDescriptor
