for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    const key = row => row.cells[column].dataset.key ?? row.cells[column].textContent;
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "descending" ? -1 : 1;
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down > 0 ? "descending" : "ascending");
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)], numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
        if (x === "" || y === "") return (x === "") - (y === "");
        return down * (numbers ? y - x : String(x).localeCompare(String(y)));
      };
      body.append(...[...body.rows].sort(compare));
    });
  });
}
