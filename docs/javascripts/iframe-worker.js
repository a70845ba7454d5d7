// The search runs in a worker, which browsers refuse to a page from a file. There, its script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      // A script in the head runs before there is a body.
      document.documentElement.append(frame);
      this.inside = frame.contentWindow;
      const load = (source) =>
        new Promise((done, failed) => {
          const script = this.inside.document.createElement("script");
          script.src = source;
          script.onload = done;
          script.onerror = failed;
          this.inside.document.head.append(script);
        });
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = async (...sources) => {
        for (const source of sources) await load(source);
      };
      this.ready = load(url);
    }

    async postMessage(data) {
      await this.ready;
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }
  };
}
