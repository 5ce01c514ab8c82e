/* Search on files opened from a disk: there browsers start no worker, so its script runs in a hidden frame. zensical.toml names
   this file as a polyfill in place of one that would be fetched when a page is read. */
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      const frame = document.createElement("iframe");
      frame.hidden = true;
      // Within the frame `postMessage(data)` means the page, as it does within a worker.
      frame.srcdoc =
        "<script>self.postMessage = data => parent.postMessage(data, '*')</" + "script>" +
        `<script src="${new URL(url, location.href)}"></` + "script>";
      this.frame = frame;
      this.ready = new Promise(resolve => frame.addEventListener("load", () => resolve(frame.contentWindow)));
      this.receive = event => {
        if (event.source === frame.contentWindow) this.onmessage?.(event);
      };
      addEventListener("message", this.receive);
      document.body.append(frame);
    }
    postMessage(data) {
      this.ready.then(frame => frame.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      removeEventListener("message", this.receive);
      this.frame.remove();
    }
  };
}
