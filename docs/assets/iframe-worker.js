// Search in a site opened from a folder, where browsers start no workers: a hidden frame runs the script of the worker.
// Without this file Zensical would load one from the network.
if (location.protocol === "file:") {
  // Messages are copied and arrive later, as those of a worker.
  const later = (data, receive) => {
    const event = new MessageEvent("message", { data: structuredClone(data) })
    setTimeout(() => receive(event))
  }
  window.IFrameWorker = window.Worker = class {
    constructor(address) {
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.documentElement.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = (data) => later(data, (event) => this.onmessage?.(event))
      const script = inside.document.createElement("script")
      script.src = address
      script.onerror = (event) => this.onerror?.(event)
      script.onload = () => {
        this.ready = true
        this.waiting.splice(0).forEach((data) => this.postMessage(data))
      }
      inside.document.head.append(script)
    }

    postMessage(data) {
      const inside = this.frame.contentWindow
      if (this.ready) later(data, (event) => inside.onmessage?.(event))
      else this.waiting.push(data)
    }

    terminate() {
      this.frame.remove()
    }
  }
}
