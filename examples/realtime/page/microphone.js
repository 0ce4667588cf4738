// What a microphone hears, as PCM16 in pieces of a twentieth of a second. It runs on the audio thread, at 24 kHz.
class Microphone extends AudioWorkletProcessor {
  constructor() {
    super();
    this.piece = new Int16Array(sampleRate / 20);
    this.filled = 0;
  }

  process([[samples]]) {
    for (const sample of samples ?? []) {
      const level = Math.max(-1, Math.min(1, sample));
      this.piece[this.filled++] = level < 0 ? level * 32768 : level * 32767;
      if (this.filled === this.piece.length) {
        const whole = this.piece.slice();
        this.port.postMessage(whole.buffer, [whole.buffer]);
        this.filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("microphone", Microphone);
