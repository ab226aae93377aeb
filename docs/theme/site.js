// The theme adds a navigation without a name to each code block, and the keyboard cannot scroll its wide tables.
const repair = () => {
  for (const buttons of document.querySelectorAll(".md-code__nav")) buttons.setAttribute("role", "none");
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (table.scrollWidth > table.clientWidth) table.setAttribute("tabindex", "0");
    else table.removeAttribute("tabindex");
  }
};

new MutationObserver(repair).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", repair);
repair();
