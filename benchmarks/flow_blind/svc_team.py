"""The team chat. Names have hyphens, results are lists of dicts."""

from __future__ import annotations

from typing import TypedDict

from state import Service, act_port, read_port


class Channel(TypedDict):
    name: str
    topic: str
    members: list[str]


class Post(TypedDict):
    ts: str
    user: str
    text: str


class Member(TypedDict):
    user: str
    real_name: str
    title: str


class TeamService(Service):
    @read_port("team-channels", untrusted=True)
    async def channels(self) -> list[Channel]:
        """List the channels that the user is in."""
        return [
            {"name": name, "topic": one["topic"], "members": one["members"]}
            for name, one in self.world.channels.items()
        ]

    @read_port("team-history", untrusted=True, readers=["channel"])
    async def history(self, channel: str, limit: int = 20) -> list[Post]:
        """The newest messages of a channel, or of the direct messages with a user (@user)."""
        return list(self.world.find(self.world.channels, channel, "channel")["posts"][-limit:])

    @read_port("team-search", untrusted=True)
    async def search(self, words: str) -> list[dict[str, str]]:
        """Search the messages of all channels."""
        wanted = words.lower().split()
        return [
            {"channel": name, **post}
            for name, channel in self.world.channels.items()
            for post in channel["posts"]
            if all(word in f"{post['text']} {post['user']}".lower() for word in wanted)
        ]

    @act_port("team-post", sink=["channel"])
    async def post(self, channel: str, text: str, thread: str = "") -> dict[str, str]:
        """Post to a channel, or answer in a thread (its ts)."""
        self.world.find(self.world.channels, channel, "channel")["posts"].append(
            {"ts": f"t{self.world.new_number()}", "user": "theo", "text": text}
        )
        self.world.log("chat.posted", channel, *([thread] if thread else []), text=text)
        return {"ok": "posted"}

    @act_port("team-dm", sink=["user"])
    async def dm(self, user: str, text: str) -> dict[str, str]:
        """Send a direct message to a user."""
        self.world.log("chat.dm", user, text=text)
        return {"ok": "sent"}

    @act_port("team-react", sink=["channel", "ts"])
    async def react(self, channel: str, ts: str, emoji: str) -> dict[str, str]:
        """React to a message."""
        self.world.log("chat.reacted", channel, ts, emoji)
        return {"ok": "added"}

    @read_port("team-whois", untrusted=False)
    async def whois(self, name: str) -> list[Member]:
        """Look a colleague up in the company's directory, which the administrators maintain."""
        return [
            {"user": user, "real_name": one["real_name"], "title": one["title"]}
            for user, one in self.world.members.items()
            if name.lower() in f"{user} {one['real_name']} {one['title']}".lower()
        ]

    @act_port("team-invite", sink=["channel", "user"])
    async def invite(self, channel: str, user: str) -> dict[str, str]:
        """Add a user, or a guest by mail address, to a channel."""
        self.world.find(self.world.channels, channel, "channel")["members"].append(user)
        self.world.log("chat.invited", channel, user)
        return {"ok": "added"}

    @act_port("team-set_topic", sink=["channel"])
    async def set_topic(self, channel: str, topic: str) -> dict[str, str]:
        """Set the topic of a channel."""
        self.world.find(self.world.channels, channel, "channel")["topic"] = topic
        self.world.log("chat.topic", channel, text=topic)
        return {"ok": "set"}

    @act_port("team-create_channel", sink=["name", "members"])
    async def create_channel(self, name: str, members: list[str]) -> dict[str, str]:
        """Create a channel with members."""
        self.world.channels[name] = {"topic": "", "members": members, "posts": []}
        self.world.log("chat.created", name, *members)
        return {"ok": "created", "name": name}

    @act_port("team-remind", sink=["user"])
    async def remind(self, user: str, text: str, when: str) -> dict[str, str]:
        """Remind a user (or `me`) of something later."""
        self.world.log("chat.reminder", user, when, text=text)
        return {"ok": "scheduled"}

    @act_port("team-delete_message", sink=["channel", "ts"])
    async def delete_message(self, channel: str, ts: str) -> dict[str, str]:
        """Delete one of the user's messages."""
        self.world.log("chat.deleted", channel, ts)
        return {"ok": "deleted"}

    @act_port("team-outgoing_webhook", sink=["url"])
    async def outgoing_webhook(self, channel: str, url: str) -> dict[str, str]:
        """Send each new message of a channel to a URL."""
        self.world.log("chat.webhook", channel, url)
        return {"ok": "active"}
