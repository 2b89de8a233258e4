"""The results of all runs of a user, kept by what they were made of: packs of many, indexes, and room for new ones.

Below the store's folder each user has one, which nobody else writes to:

    version               which layout it is
    packs/TOKEN-N.pack    results, one record after the other; a process adds to packs of its own alone
    packs/TOKEN-N.idx     what is in a pack, written once it is complete: where, how long, with which digest
    packs/TOKEN-N.used    when each of its results was last of use
    dropped/TOKEN-N       results of a pack that are not to be found again
    running/HOST-TOKEN    a process that uses the store, and what it found there

Nothing is ever changed where it lies, but added, replaced whole, or removed: so nobody waits for anybody, and file
systems without locks will do. With locks no two processes make room at once, and one that was killed is known to be
gone.
"""
