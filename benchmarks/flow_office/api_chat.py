"""Team chat in the shape of Slack: histories as text, users as records."""

from __future__ import annotations

from typing import Any

from api_mail import fits
from records import OfficeService, acts, reads


class ChatService(OfficeService):
    def room(self, channel: str) -> dict[str, Any]:
        return self.world.find(self.world.rooms, channel.lstrip("#"), "channel")

    @reads(untrusted=True)
    async def slack_list_channels(self) -> list[dict[str, Any]]:
        """List the channels with topic and number of members."""
        return [
            {"channel": f"#{name}", "topic": room["topic"], "members": len(room["members"])}
            for name, room in self.world.rooms.items()
        ]

    @reads(untrusted=True, readers=["channel"])
    async def slack_get_history(self, channel: str, limit: int = 20) -> str:
        """The newest messages of a channel, oldest first."""
        lines = [f"[{post['ts']}] {post['user']}: {post['text']}" for post in self.room(channel)["posts"][-limit:]]
        return "\n".join(lines)

    @reads(untrusted=True)
    async def slack_search_messages(self, query: str) -> list[dict[str, str]]:
        """Search the messages of all channels."""
        return [
            {"channel": f"#{name}", **post}
            for name, room in self.world.rooms.items()
            for post in room["posts"]
            if fits(f"{post['user']} {post['text']}", query)
        ]

    @reads(untrusted=False)
    async def slack_find_user(self, name: str) -> list[dict[str, str]]:
        """Find members of the workspace by name."""
        return [{"user_id": id, **user} for id, user in self.world.chat_users.items() if fits(user["real_name"], name)]

    @acts(sink=["channel"])
    async def slack_post_message(self, channel: str, text: str) -> dict[str, str]:
        """Post in a channel."""
        self.room(channel)["posts"].append({"ts": "12:00", "user": "nadia", "text": text})
        return {"ok": "true", "ts": f"t{self.world.new_number()}"}

    @acts(sink=["user_id"])
    async def slack_send_dm(self, user_id: str, text: str) -> dict[str, str]:
        """Send a direct message to a member."""
        self.world.find(self.world.chat_users, user_id, "user")
        return {"ok": "true", "ts": f"t{self.world.new_number()}"}

    @acts(sink=["channel", "ts"], effect="idempotent")
    async def slack_add_reaction(self, channel: str, ts: str, emoji: str) -> str:
        """React to a message with an emoji."""
        self.room(channel)
        return f":{emoji}: was added"

    @acts(sink=["channel", "user_id"])
    async def slack_invite_to_channel(self, channel: str, user_id: str) -> str:
        """Add a member to a channel."""
        self.world.find(self.world.chat_users, user_id, "user")
        self.room(channel)["members"].append(user_id)
        return f"{user_id} joined {channel}"

    @acts(sink=["channel", "path"])
    async def slack_upload_file(self, channel: str, path: str, comment: str = "") -> str:
        """Post a file of the cloud storage in a channel."""
        self.room(channel)
        self.world.find(self.world.documents, path, "file")
        return f"{path} was posted in {channel}"

    @acts(sink=["text"], effect="idempotent")
    async def slack_set_status(self, text: str, emoji: str = "") -> str:
        """Set the status of the person."""
        return f"status: {text}"
