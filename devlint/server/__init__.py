"""`devlint server`: findings, fixes and explanations in an editor, by the Language Server Protocol.

Data flows one way: what the editor holds (`documents.py`), the desk that lints it and keeps what was read between
keystrokes (`desk.py`, `kept.py`), and what the editor is told (`diagnostics.py`, `actions.py`, `hover.py`, `lenses.py`).
`app.py` alone knows of messages. All but that module runs on one thread of its own, one piece of work after the other.
"""
