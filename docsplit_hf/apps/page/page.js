// The step that is open stands in the address: the back button goes to the one before, and a reload stays.
() => {
  let asked, until;
  const tabs = () => [...document.querySelectorAll("[role=tab]")];
  const current = () => tabs().find((tab) => tab.ariaSelected === "true");
  const open = (step) => document.getElementById(`${step || "texts"}-button`)?.click();
  // What a click has opened may be above or below what is on the screen.
  window.bringIntoView = (id) => document.getElementById(id)?.scrollIntoView({ block: "nearest" });
  window.stepOpened = () => (location.hash = current().dataset.tabId);
  addEventListener("hashchange", () => open(location.hash.slice(1)));
  document.addEventListener("keydown", (event) => {
    const tab = event.target.closest("[role=tab]"), along = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const next = tab && along && tabs().at((tabs().indexOf(tab) + along) % tabs().length);
    if (next) (next.focus(), next.click());
    if (current()?.id !== "next-button" || event.target.matches("input, textarea") || event.ctrlKey || event.metaKey) return;
    const buttons = [...document.querySelectorAll("#next .given button")].filter((button) => button.offsetParent);
    const wanted = event.key === "s" ? document.getElementById("suggested_other") : buttons[event.key - 1];
    const text = document.querySelector("#next textarea").value;
    if (!wanted || (text === asked && event.timeStamp < until)) return; // the answer to the last key is under way
    [asked, until] = [text, event.timeStamp + 3000];
    const click = () => (wanted.disabled ? setTimeout(click, 50) : wanted.click()); // a text is there before its buttons
    click();
  });
  document.querySelectorAll(".upload-container").forEach((one) => one.removeAttribute("aria-label")); // it has a text
  // Gradio takes the names of files without their folders, takes no folder that is dropped, and refuses all files if one
  // is hidden. So each file gets its path as name, with other slashes (documents.py), and hidden ones are left out.
  const HIDDEN = /(^|[/])([.]|~[$]|thumbs[.]db$|desktop[.]ini$|__macosx[/])/i;
  const transfer = (given) => {
    const data = new DataTransfer();
    for (const [path, file] of given) {
      if (!HIDDEN.test(path)) data.items.add(new File([file], path.replaceAll("/", "\u2215"), { type: file.type }));
    }
    return data;
  };
  document.addEventListener("change", ({ target }) => {
    if (target.webkitdirectory) target.files = transfer([...target.files].map((file) => [file.webkitRelativePath, file])).files;
  }, true);
  const filesIn = async (entry) => {
    const ask = (what, how) => new Promise((done, fail) => what[how](done, fail));
    if (entry.isFile) return [[entry.fullPath.slice(1), await ask(entry, "file")]];
    const reader = entry.createReader(), found = [];
    for (let some; (some = await ask(reader, "readEntries")).length; ) found.push(...some);
    return (await Promise.all(found.map(filesIn))).flat();
  };
  document.addEventListener("drop", async (event) => {
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
    if (!entries.some((entry) => entry.isDirectory)) return;
    (event.preventDefault(), event.stopPropagation());
    const dataTransfer = transfer((await Promise.all(entries.map(filesIn))).flat());
    event.target.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
  }, true);
  if (location.hash) open(location.hash.slice(1));
}
