// torch.randn(count, generator=torch.Generator().manual_seed(seed)) on the CPU, so that Python starts where the page does.
// Mersenne Twister (Matsumoto and Nishimura, 1998), then Box and Muller's transform of 16 numbers at a time.
const N = 624, M = 397;

export function randn(seed, count) {
  const next = twister(seed);
  const uniform = Float64Array.from({ length: count }, () => (next() & 0xffffff) / 2 ** 24);
  for (let block = 0; block < count; block += 16)
    for (let j = block; j < block + 8; j++) {
      const radius = Math.sqrt(-2 * Math.log(1 - uniform[j]));
      const angle = 2 * Math.PI * uniform[j + 8];
      uniform[j] = Math.fround(radius * Math.cos(angle));
      uniform[j + 8] = Math.fround(radius * Math.sin(angle));
    }
  return uniform;
}

function twister(seed) {
  const state = new Uint32Array(N);
  state[0] = seed;
  for (let i = 1; i < N; i++) state[i] = Math.imul(1812433253, state[i - 1] ^ (state[i - 1] >>> 30)) + i;
  let at = N;
  return () => {
    if (at === N) {
      for (let i = 0; i < N; i++) {
        const y = (state[i] & 0x80000000) | (state[(i + 1) % N] & 0x7fffffff);
        state[i] = state[(i + M) % N] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
      }
      at = 0;
    }
    let y = state[at++];
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  };
}
