"""An answer while it is written: one message that grows where the platform can edit, and the sign of being busy."""

from __future__ import annotations

import asyncio
import logging

from msgspec.structs import replace

from mainstay.core.channels import ChannelError, ChatChannel, Delivery, Mail, MaybeSent, NeverSent, NotSent, Sent
from mainstay.core.chunks import chunks
from mainstay.core.errors import MainstayError
from mainstay.core.events import Event, Judged, StepRestarted, TextDelta, ToolCallReady
from mainstay.core.ports import Clock
from mainstay.gateway.delivery import Courier, bounded, draft_key

log = logging.getLogger("mainstay.delivery")

SILENT = "[SILENT]"
FIRST_CHARS = 24  # nobody wants to see one word
FIRST_S = 1.0  # unless no more comes
TYPING_S = 4.0  # platforms show it for about five
END_S = 20.0  # for the last of its calls
TROUBLE_S = 5.0  # after an edit that was not taken


class Writing:
    """What a session's model is writing just now, as whoever watches hears it."""

    def __init__(self) -> None:
        self.turn = self.step = 0
        self.text = ""
        self.note = ""  # the tool that runs
        self.gaps = False  # something was missed: until the next step, nobody knows what it says
        self.news = asyncio.Event()

    def take(self, event: Event) -> None:
        if event.turn != self.turn or event.step > self.step:
            self.turn, self.step, self.gaps = event.turn, event.step, False
            self.text = ""
        match event:
            case TextDelta(text=text):
                self.text += "" if self.gaps else text
                self.note = ""
            case ToolCallReady(name=name):
                self.note = name
            case StepRestarted() | Judged(passed=False, last=False):  # it was no answer, and another is written
                self.text, self.gaps = "", False
            case _:
                return
        self.news.set()

    def miss(self) -> None:
        self.text, self.gaps = "", True


class Draft:
    """Shows what there is of an answer. It may come and go: the answer itself is the courier's business."""

    def __init__(
        self, delivery: Delivery, writing: Writing, channel: ChatChannel, mail: Mail, courier: Courier, clock: Clock
    ) -> None:
        self.delivery = delivery
        self._writing = writing
        self._channel = channel
        self._mail = mail
        self._courier = courier
        self._clock = clock
        self._note = ""
        self._since: float | None = None  # when the first of the text was seen
        self._shown = ""  # what stands in the room
        self._next_edit = self._next_typing = 0.0
        self._silenced = False  # nothing is shown until the end
        self._over = False
        self._task: asyncio.Task[None] | None = None

    def begin(self, *, stream: bool) -> None:
        self._silenced = not (stream and self._channel.shows.edits)
        self._task = asyncio.get_running_loop().create_task(self._paint(), name=f"draft {self.delivery.to}")

    async def end(self) -> Delivery:
        """No more is shown; what was, is the first part of the answer."""
        self._over = True
        self._writing.news.set()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=END_S)
            self._task.cancel()  # what came of a call that hangs is found out with the answer
            await asyncio.wait((self._task,))
        return self.delivery

    @property
    def shown(self) -> str:
        """What stands in the room."""
        return self._shown if self.delivery.ids else ""

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    # --- showing ---------------------------------------------------------------------------------

    async def _paint(self) -> None:
        while not self._over:
            now, note = self._clock.monotonic(), self._writing.note
            if note != self._note:
                self._note, self._next_typing = note, 0.0
            if self._channel.shows.typing and now >= self._next_typing:
                self._next_typing = now + TYPING_S
                await self._channel.typing(self.delivery.to, self._note)
                continue
            if self._worth(now):
                await self._show()
                continue
            self._writing.news.clear()
            try:
                async with asyncio.timeout(self._patience(now)):
                    await self._writing.news.wait()
            except TimeoutError:
                continue

    def _patience(self, now: float) -> float:
        """Until there may be something to do without any news."""
        times = [self._next_typing if self._channel.shows.typing else now + TYPING_S]
        if self._since is not None and not self._silenced and self._written() != self._shown:
            times.append(max(self._next_edit, self._since + FIRST_S))
        return max(min(times) - now, 0.05)

    def _written(self) -> str:
        return self._writing.text.strip() if self._writing.turn == self.delivery.turn else ""

    def _worth(self, now: float) -> bool:
        text = self._written()
        if text and self._since is None:
            self._since = now
        if self._silenced or self._over or now < self._next_edit or not text or text == self._shown:
            return False
        if SILENT.startswith(text[: len(SILENT)]):  # it may be going to say nothing at all
            return False
        first = not self.delivery.ids
        return not first or len(text) >= FIRST_CHARS or (self._since is not None and now - self._since >= FIRST_S)

    async def _show(self) -> None:
        shows, at = self._channel.shows, self.delivery.to
        self._next_edit = self._clock.monotonic() + shows.edit_every_s
        if not self._courier.free(at):  # what is to be said goes before what is being written
            self._next_edit += 0.05
            return
        text = self._written()
        pieces = chunks(text[: 2 * shows.length], self._channel.format, shows.length)
        try:
            async with self._courier.room(at).lock:
                await self._put(self._channel.format(pieces[0]))
            self._shown = text
        except NotSent as error:
            self._courier.hold(at, error.retry_after_s or 0.0)
            self._try_later(error.retry_after_s or TROUBLE_S)
        except NeverSent as error:
            log.info("an answer is not shown while it is written: %s", error)
            self._silenced = True
        except ChannelError:
            self._silenced = self._channel.shows.once == "none" and not self.delivery.ids
            self._try_later(TROUBLE_S)
        except MainstayError as error:  # the disk; the answer will wait for it, this need not
            log.warning("an answer is not shown while it is written: %s", error)
            self._try_later(TROUBLE_S)

    def _try_later(self, seconds: float) -> None:
        self._next_edit = self._clock.monotonic() + seconds

    async def _put(self, text: str) -> None:
        delivery = self.delivery
        if delivery.ids:
            await bounded(self._channel.edit(delivery.to, delivery.ids[0], text))
            return
        unsure = delivery.state == "sending"
        if not delivery.draft:
            delivery = await self._mail.put(replace(delivery, draft=True))
        self.delivery = delivery = replace(delivery, state="sending")
        await self._mail.update(delivery)
        found: Sent | None = None
        if unsure and self._channel.shows.once == "look":
            found = await bounded(self._channel.find(delivery.to, draft_key(delivery)))
        elif unsure and self._channel.shows.once == "none":
            raise MaybeSent("it is not known whether it was posted")
        try:
            post = self._channel.post
            sent = found if found is not None else await bounded(post(delivery.to, text, key=draft_key(delivery)))
        except NotSent:
            self.delivery = replace(delivery, state="pending") if not unsure else delivery
            await self._mail.update(self.delivery)
            raise
        self.delivery = replace(delivery, state="pending", ids=(sent.id,))
        await self._mail.update(self.delivery)
