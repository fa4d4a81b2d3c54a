"""How a conversation with an editor begins and ends: what comes before `initialize` or after `shutdown` is refused."""

from __future__ import annotations

from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidRequest, JsonRpcServerNotInitialized
from pygls.protocol import LanguageServerProtocol


class Conversation(LanguageServerProtocol):
    """The messages of one connection, in the order that the protocol asks for."""

    has_heard = False
    has_begun = False
    is_over = False

    def handle_message(self, message: Any) -> None:
        """Has a message handled, unless it isn't its time: a request is told so, a notification passed over."""
        self.has_heard = True
        method = getattr(message, "method", "")
        refusal = self._refusal(method) if method and method != types.EXIT else None
        if refusal is None:
            self.has_begun = self.has_begun or method == types.INITIALIZE
            # What shutting down awaits needn't be over when the next request comes.
            self.is_over = self.is_over or method == types.SHUTDOWN
            super().handle_message(message)
        elif hasattr(message, "id"):
            self._send_response(message.id, error=refusal.to_response_error())

    def _refusal(self, method: str) -> JsonRpcException | None:
        """Why nothing is done about a method now; None where something is."""
        if self.is_over:
            return JsonRpcInvalidRequest("the server was told to shut down")
        if not self.has_begun and method != types.INITIALIZE:
            return JsonRpcServerNotInitialized("`initialize` comes first")
        if self.has_begun and method == types.INITIALIZE:
            return JsonRpcInvalidRequest("`initialize` comes once")
        return None
