// Sound in both directions, and what is drawn of it. Nothing is heard before somebody presses something: browsers ask that.
const RATE = 24000;

export class Sound {
  #context = null;
  #next = 0; // when what came last has been played
  #playing = new Set();
  #stream = null;
  #worklet = null;
  #meters = [];

  constructor(yours, theirs) {
    this.#meters = [new Meter(yours), new Meter(theirs)];
  }

  get listens() {
    return this.#stream !== null;
  }

  async wake() {
    this.#context ??= new AudioContext({ sampleRate: RATE });
    if (this.#context.state === "suspended") await this.#context.resume();
    return this.#context;
  }

  // Take the microphone; `heard` gets PCM16 as it comes.
  async listen(heard) {
    const context = await this.wake();
    this.#stream = await navigator.mediaDevices.getUserMedia({
      audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true },
    });
    await context.audioWorklet.addModule("microphone.js");
    const source = context.createMediaStreamSource(this.#stream);
    this.#worklet = new AudioWorkletNode(context, "microphone", { numberOfOutputs: 0 });
    this.#worklet.port.onmessage = ({ data }) => heard(data);
    source.connect(this.#worklet);
    this.#meters[0].follow(context, source);
  }

  mute() {
    this.#stream?.getTracks().forEach((track) => track.stop());
    this.#worklet?.disconnect();
    if (this.#worklet) this.#worklet.port.onmessage = null;
    this.#stream = this.#worklet = null;
  }

  // Play PCM16 after what plays already; `played` gets how many milliseconds of it were. Before anybody pressed
  // anything, it is only in the transcript.
  play(bytes, played) {
    const context = this.#context;
    if (context?.state !== "running" || bytes.byteLength < 2) return;
    const samples = new Int16Array(bytes.slice(0, bytes.byteLength - (bytes.byteLength % 2)));
    const buffer = context.createBuffer(1, samples.length, RATE);
    buffer.getChannelData(0).set(Float32Array.from(samples, (sample) => sample / 32768));
    const source = context.createBufferSource();
    source.buffer = buffer;
    source.connect(context.destination);
    this.#meters[1].follow(context, source);
    this.#next = Math.max(this.#next, context.currentTime);
    source.start(this.#next);
    const piece = { source, begins: this.#next, played };
    this.#next += buffer.duration;
    this.#playing.add(piece);
    source.onended = () => {
      this.#playing.delete(piece);
      played(buffer.duration * 1000);
    };
  }

  // Somebody interrupted: what was not yet heard is not played.
  hush() {
    for (const { source, begins, played } of this.#playing) {
      source.onended = null;
      source.stop();
      const heard = Math.min(this.#context.currentTime - begins, source.buffer.duration);
      if (heard > 0) played(heard * 1000);
    }
    this.#playing.clear();
    this.#next = 0;
  }
}

// Draws the waveform of what passes, and a line where nothing does.
class Meter {
  #canvas;
  #analyser = null;

  constructor(canvas) {
    this.#canvas = canvas;
    this.#draw(null);
  }

  follow(context, source) {
    if (this.#analyser === null) {
      this.#analyser = new AnalyserNode(context, { fftSize: 1024 });
      const samples = new Float32Array(this.#analyser.fftSize);
      const again = () => {
        this.#analyser.getFloatTimeDomainData(samples);
        this.#draw(samples);
        requestAnimationFrame(again);
      };
      again();
    }
    source.connect(this.#analyser);
  }

  #draw(samples) {
    const canvas = this.#canvas;
    const scale = devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * scale);
    const height = Math.round(canvas.clientHeight * scale);
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const pen = canvas.getContext("2d");
    const bars = Math.max(1, Math.floor(width / (4 * scale)));
    let loudest = 0;
    pen.clearRect(0, 0, width, height);
    pen.fillStyle = getComputedStyle(canvas).color;
    for (let bar = 0; bar < bars; bar++) {
      const from = samples ? Math.floor((bar * samples.length) / bars) : 0;
      const to = samples ? Math.floor(((bar + 1) * samples.length) / bars) : 0;
      let peak = 0;
      for (let place = from; place < to; place++) peak = Math.max(peak, Math.abs(samples[place]));
      loudest = Math.max(loudest, peak);
      const tall = Math.max(2 * scale, Math.min(1, peak * 1.6) * height);
      pen.fillRect(bar * 4 * scale, (height - tall) / 2, 2 * scale, tall);
    }
    canvas.dataset.level = loudest.toFixed(3);
  }
}
