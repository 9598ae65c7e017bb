"""Python kit for plugin authors: declare actions, serve them, and store state.

from mainstay.kit import ActionFailed, Call, action, serve, state

@action(effect="pure")
def greet(name: str) -> str:
    "Greet a person by name."
    return f"Hello {name}!"

serve()
"""

from mainstay.kit.actions import ActionFailed as ActionFailed
from mainstay.kit.actions import Call as Call
from mainstay.kit.actions import action as action
from mainstay.kit.server import serve as serve
from mainstay.kit.state import StateRefused as StateRefused
from mainstay.kit.state import state as state
