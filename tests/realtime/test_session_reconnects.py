"""A connection is made anew where that is of use, and not forever."""

from __future__ import annotations

from keyturn.realtime import model_events as me
from tests.realtime.attending import OwnModel, talking_to
from tests.realtime.desk import support
from tests.waiting import until


async def test_a_server_that_begins_a_turn_and_hangs_up_each_time_is_not_called_forever() -> None:
    model = OwnModel()
    async with talking_to(model, support(), config={"reconnect_attempts": 2}) as (session, told):
        await session.send_message("hello?")
        for connects in (1, 2, 3):
            await until(lambda: model.sent)
            model.sent.clear()
            await model.tell(me.RealtimeModelTurnStartedEvent(response_id=f"r{connects}"))
            await model.tell(me.RealtimeModelConnectionStatusEvent("disconnected"))
            await until(lambda n=connects: model.connects > n or told.errors())
        assert (model.connects, told.ended) == (3, None)
        assert "call reconnect()" in str(told.errors())
