"""Define who asks, and what they may do."""

from __future__ import annotations

from enum import Enum

import msgspec

from cenote.common import errors
from cenote.service.client.definitions import TaskState
from cenote.service.client.records import CallerRecord, QueuedTaskRecord, ServiceRecord


class Who(Enum):
    """Whom a route is for."""

    ANYONE = "anyone, without signing in"
    USER = "everybody who is signed in"
    TASK_OWNER = "the user of the task, and admins"
    POOL_OWNER = "the user of the pool, and admins"
    ADMIN = "the owner of the service, and admins"


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody whom the service knows."""

    user: str
    admin: bool = False
    groups: tuple[str, ...] = ()
    at_home: bool = False
    """Whether it is the owner, or root, at the socket: who can open the service's files anyway."""
    token: str = ""
    """The id of the token that they showed, or with which their session began."""
    session: str = ""
    """The hash of their browser's session, where they have one."""

    @property
    def record(self) -> CallerRecord:
        """As they may read it."""
        return CallerRecord(user=self.user, admin=self.admin, groups=self.groups, names_files=self.at_home)

    def owns(self, user: str) -> bool:
        """Whether they may change what belongs to this user, and read what it printed."""
        return self.admin or self.user == user

    def group_of_task(self, asked: str) -> str:
        """The group of a task of theirs. Raises where it is none of their groups."""
        if self.admin or asked in self.groups:
            return asked
        if asked:
            known = ", ".join(self.groups) or "none"
            raise errors.error(errors.NOT_ALLOWED, f"user '{self.user}' is not in group '{asked}' (groups: {known})")
        return next(iter(self.groups), "")

    def shown_service(self, service: ServiceRecord) -> ServiceRecord:
        """What they may see of the service: where it lives is for those who look after it."""
        return service if self.admin else msgspec.structs.replace(service, pid=0, python="", home="")

    def shown(self, task: QueuedTaskRecord) -> QueuedTaskRecord:
        """What they may see of a task: of those of others neither the command nor the run nor why it failed."""
        if self.owns(task.user):
            return task
        waits = task.state in (TaskState.SUBMITTED, TaskState.PAUSED)
        return msgspec.structs.replace(task, command="", labels={}, run="", why=task.why if waits else ())
