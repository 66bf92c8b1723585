"""Several threads visit pages, each page once, and go on after a kill where they were."""

from concurrent.futures import ThreadPoolExecutor

import durahash


def links(page):
    """What would be fetched from the network."""
    return [f"/{(int(page[1:]) * 7 + n) % 500}" for n in range(3)]


with durahash.Map("pages.pool", key=str, value="json") as pages:

    def visit(page):
        # Of several threads that come to a page, one visits it.
        if not pages.add_if_absent(page, None):
            return []
        found = links(page)
        pages[page] = {"links": found}
        return found

    # What was begun when the last run was killed is done again.
    for page, content in pages.items():
        if content is None:
            del pages[page]
    front = ["/1"]
    with ThreadPoolExecutor(4) as threads:
        while front:
            front = [page for found in threads.map(visit, front) for page in found if page not in pages]
    print(len(pages), "pages")
