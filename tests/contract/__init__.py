"""The contract: what the package answers today, compared with committed snapshots.

A refactoring may move and rename anything, but it must not change what users get. Therefore:

- ``numbers``   areas, curves, intervals, certificates, calibrators, metrics and monitors;
- ``losses``    the value and the gradient of every loss, in float64;
- ``stored``    policies, calibrators and monitors as files: what is written, and that the
  committed files (also those of older schemas) are read and decide the same;
- ``commands``  the ``--json`` of every command, decisions, refused files, what a report embeds;
- ``interface`` the answers of the desk's HTTP interface to a scripted story.

Numbers are compared to the bit, except in the entries of `compare.TOLERANCE`. Sentences for people
(messages, hints, guarantees) are left out, because they may be reworded; codes and names of errors
are compared. On another machine, whose floating point rounds differently,
``EXPERTLOAD_CONTRACT_TOLERANCE=1e-9`` relaxes every comparison.

Only `subject` calls Python functions of the package; everything else goes through the command line
and HTTP. If a public function moves or takes other arguments, edit `subject`, never a snapshot.

A snapshot is changed only if behaviour is meant to change::

    python -m tests.contract.write                      # adds new entries, refuses to change old
    python -m tests.contract.write --overwrite PART ... # rewrites the named parts
"""
