// Hears that something changed: by the events of the service, and where it has none by looking every two seconds.

const NAMES = ["pool", "task", "output", "service", "reset"];
const LOOK_EVERY = 2000;
const CHARTS_EVERY = 5000; // time passes in charts without events

export class News {
  // `changed` is called whenever something may be different, `state` with "live", "looking" or "away".
  constructor(changed, state) {
    this.changed = changed;
    this.state = state;
    this.source = null;
    this.hasEvents = null; // not known before the first answer
    this.timer = null;
    this.task = null;
  }

  // Of one task its output is heard too; of all tasks at once that would be much.
  follow(task) {
    if (task === this.task) return;
    this.task = task;
    if (this.source || this.hasEvents) this.start();
  }

  start() {
    this.stop();
    if (document.hidden) return; // it starts when it is seen
    if (this.hasEvents === false) this.look();
    else this.listen();
  }

  stop() {
    this.source?.close();
    this.source = null;
    clearInterval(this.timer);
  }

  listen() {
    const source = new EventSource(`/v1/events${this.task ? `?task=${encodeURIComponent(this.task)}` : ""}`);
    this.source = source;
    for (const name of NAMES) source.addEventListener(name, () => this.changed());
    source.onmessage = () => this.changed();
    source.onopen = () => {
      this.hasEvents = true;
      this.state("live");
      this.changed();
    };
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) {
        if (!this.task) this.hasEvents ??= false; // it answered, and has no events
        this.stop();
        this.look();
      } else this.changed(); // it tries again by itself; whether the service is there shows when it is asked
    };
    this.timer = setInterval(() => this.changed(), CHARTS_EVERY);
  }

  look() {
    this.state("looking");
    this.timer = setInterval(() => this.changed(), LOOK_EVERY);
    this.changed();
  }
}
