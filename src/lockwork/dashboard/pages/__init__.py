"""The pages, in the order of the rail; one file for each, and one template of the same name.

To add a page, write `pages/NAME.py` with `read(view)`, which returns the data of the template, a function for each
action, which returns the sentence that the page then shows, and `PAGE`. Add `templates/NAME.html`, which begins like
the others and uses `templates/macros.html`; an icon `i-NAME` in `templates/icons.html`; and an entry in PAGES. The page
is then live, is linked from the rail, and posts its actions to its own path.

Rows have ids, so that they are updated in place. A table with an id and `data-hold` holds new rows back until the user
requests them. `x` selects the checkbox with `data-select` of a row, `data-select-all` selects all, `data-selected`
shows the number of selected rows, and `data-bulk` is shown while rows are selected.
"""

from __future__ import annotations

from lockwork.dashboard.page import Page
from lockwork.dashboard.pages import (
    change,
    dead,
    flow,
    flows,
    job,
    jobs,
    limiters,
    locks,
    overview,
    queue,
    queues,
    schedules,
    stocks,
    tasks,
    workers,
)

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    queues.PAGE,
    queue.PAGE,
    jobs.PAGE,
    change.PAGE,
    job.PAGE,
    dead.PAGE,
    tasks.PAGE,
    workers.PAGE,
    workers.ONE,
    schedules.PAGE,
    flows.PAGE,
    flow.PAGE,
    locks.PAGE,
    limiters.PAGE,
    stocks.PAGE,
)
