// Search from a folder, without a server: there browsers start no workers, so a hidden frame does the work.
// The theme knows this file by its name, and would otherwise load one from the network.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.documentElement.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = inside.document.createElement("script")
      script.src = address
      script.onload = () => {
        this.ready = true
        this.waiting.splice(0).forEach((data) => this.postMessage(data))
      }
      inside.document.head.append(script)
    }

    postMessage(data) {
      const inside = this.frame.contentWindow
      if (this.ready) inside.dispatchEvent(new inside.MessageEvent("message", { data }))
      else this.waiting.push(data)
    }

    terminate() {
      this.frame.remove()
    }
  }
}
