/* Search on files opened from a disk: there browsers start no worker, so its script runs in a hidden frame. mkdocs.yml names
   this file as a polyfill in place of one that would be fetched at view time. The theme's search asks for `IFrameWorker`. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      // Within the frame `postMessage(data)` means the page, as it does within a worker.
      frame.srcdoc =
        "<script>self.postMessage = data => parent.postMessage(data, '*')</" + "script>" +
        `<script src="${new URL(url, location.href)}"></` + "script>";
      this.ready = new Promise(resolve => frame.addEventListener("load", () => resolve(frame.contentWindow)));
      addEventListener("message", event => {
        if (event.source === frame.contentWindow) this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
      document.body.append(frame);
    }
    postMessage(data) {
      this.ready.then(frame => frame.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}
