from typing import TypeVar

from google.protobuf.message import Message

M = TypeVar("M", bound=Message)

def MessageToDict(message: Message, *, preserving_proto_field_name: bool = ...) -> dict[str, object]: ...
def ParseDict(js_dict: object, message: M, ignore_unknown_fields: bool = ...) -> M: ...
