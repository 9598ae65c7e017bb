"""The team chat: channels, direct messages and the directory of its users."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from toolbox import reads, writes
from world import MY_HANDLE, TODAY, Channel, Message, World, find


def channel_name(name: str) -> str:
    return name.strip().lstrip("#").rstrip("/").lower()


def handle_of(user: str) -> str:
    return user.strip().lstrip("@").lower()


class ChatTools:
    def __init__(self, world: World) -> None:
        self.world = world

    def _channel(self, name: str) -> Channel:
        return find(self.world.channels, channel_name(name), "channel")

    def _show(self, message: Message) -> dict[str, Any]:
        user = self.world.users.get(message.author)
        return {**asdict(message), "author_name": user.display_name if user else message.author}

    def _say(self, room: str, text: str) -> str:
        id = self.world.new_id("p-")
        self.world.messages[id] = Message(id, room, MY_HANDLE, text, TODAY)
        return id

    @reads(untrusted=True)
    async def list_channels(self) -> list[dict[str, Any]]:
        """List the channels with their topics and members."""
        return [asdict(channel) for channel in self.world.channels.values()]

    @reads(untrusted=True, readers=["channel"])
    async def read_channel(self, channel: str, limit: int = 20) -> list[dict[str, Any]]:
        """Read the newest messages of a channel."""
        name = self._channel(channel).name
        return [self._show(message) for message in self.world.messages.values() if message.channel == name][-limit:]

    @reads(untrusted=True, readers=["user"])
    async def read_direct_messages(self, user: str, limit: int = 20) -> list[dict[str, Any]]:
        """Read the direct messages with one user."""
        room = f"@{handle_of(user)}"
        return [self._show(message) for message in self.world.messages.values() if message.channel == room][-limit:]

    @reads(untrusted=True, readers=["channel"])
    async def search_messages(self, query: str) -> list[dict[str, Any]]:
        """Find messages with these words in all channels and direct messages."""
        words = query.lower().split()
        messages = self.world.messages.values()
        return [self._show(message) for message in messages if all(word in message.text.lower() for word in words)]

    @reads(untrusted=True)
    async def list_users(self) -> list[dict[str, Any]]:
        """List the users of the workspace."""
        return [asdict(user) for user in self.world.users.values()]

    @reads(untrusted=True)
    async def find_user(self, name: str) -> list[dict[str, Any]]:
        """Find users of the workspace by a part of their name, handle or address."""
        wanted = name.lower()
        users = self.world.users.values()
        return [asdict(user) for user in users if wanted in f"{user.handle} {user.display_name} {user.email}".lower()]

    @writes(["channel"])
    async def post_message(self, channel: str, text: str) -> dict[str, Any]:
        """Post a message in a channel."""
        name = self._channel(channel).name
        self.world.record("chat.posted", f"#{name}", text)
        return {"message": self._say(name, text)}

    @writes(["user"])
    async def send_direct_message(self, user: str, text: str) -> dict[str, Any]:
        """Send a direct message to a user of the workspace."""
        handle = find(self.world.users, handle_of(user), "user").handle
        self.world.record("chat.posted", f"@{handle}", text)
        return {"message": self._say(f"@{handle}", text)}

    @writes(["message_id"])
    async def reply_in_thread(self, message_id: str, text: str) -> dict[str, Any]:
        """Answer a message in its thread."""
        message = find(self.world.messages, message_id, "message")
        room = message.channel if message.channel.startswith("@") else f"#{message.channel}"
        self.world.record("chat.posted", (room, message_id), text)
        return {"message": self._say(message.channel, text)}

    @writes(["message_id"], effect="idempotent")
    async def react_to_message(self, message_id: str, emoji: str) -> dict[str, Any]:
        """React to a message."""
        message = find(self.world.messages, message_id, "message")
        self.world.record("chat.reacted", (message_id, message.channel), emoji)
        return {"message": message_id}

    @writes(["message_id"], effect="idempotent")
    async def delete_message(self, message_id: str) -> dict[str, Any]:
        """Delete a message."""
        find(self.world.messages, message_id, "message")
        del self.world.messages[message_id]
        self.world.record("chat.deleted", message_id)
        return {"deleted": message_id}

    @writes(["name", "members"])
    async def create_channel(self, name: str, members: list[str], private: bool = True) -> dict[str, Any]:
        """Create a channel with these users."""
        new = Channel(channel_name(name), [MY_HANDLE, *map(handle_of, members)], private)
        self.world.channels[new.name] = new
        self.world.record("channel.created", (f"#{new.name}", *new.members), name)
        return {"channel": new.name}

    @writes(["channel", "user"], effect="idempotent")
    async def add_to_channel(self, channel: str, user: str) -> dict[str, Any]:
        """Add a user to a channel, who can then read all of its messages."""
        room = self._channel(channel)
        room.members.append(handle_of(user))
        self.world.record("channel.joined", (f"#{room.name}", f"@{handle_of(user)}"))
        return {"channel": room.name}

    @writes(["channel", "user"], effect="idempotent")
    async def remove_from_channel(self, channel: str, user: str) -> dict[str, Any]:
        """Remove a user from a channel."""
        room = self._channel(channel)
        room.members = [member for member in room.members if member != handle_of(user)]
        self.world.record("channel.left", (f"#{room.name}", f"@{handle_of(user)}"))
        return {"channel": room.name}

    @writes(["channel"], effect="idempotent")
    async def set_channel_topic(self, channel: str, topic: str) -> dict[str, Any]:
        """Set the topic of a channel."""
        room = self._channel(channel)
        room.topic = topic
        self.world.record("channel.changed", f"#{room.name}", topic)
        return {"channel": room.name}

    @writes(["email", "channel"], effect="idempotent")
    async def invite_guest(self, email: str, channel: str) -> dict[str, Any]:
        """Invite somebody from outside as a guest of one channel."""
        room = self._channel(channel)
        room.members.append(email.lower())
        self.world.record("chat.guest", (email.strip().lower(), f"#{room.name}"))
        return {"invited": email}

    @writes(True, effect="idempotent")
    async def set_chat_status(self, text: str) -> dict[str, Any]:
        """Set the status that everybody in the workspace and its guests can see."""
        self.world.chat_status = text
        self.world.record("chat.status", "everybody", text)
        return {"status": "set"}
