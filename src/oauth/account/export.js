// The key of an account, from the signer to a file: it is sealed to a key pair that is made here and cannot be read out, opened
// here, compared with the address that the page shows, and encrypted under a password that never leaves this page.
'use strict'
{
  const { subtle } = crypto
  const form = document.getElementById('export')
  const utf8 = (text) => new TextEncoder().encode(text)
  const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))
  const toBase64Url = (bytes) =>
    btoa(String.fromCharCode(...bytes))
      .replaceAll('+', '-')
      .replaceAll('/', '_')
      .replaceAll('=', '')
  const fromBase64Url = (text) =>
    Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (character) => character.codePointAt(0))
  const join = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]))

  // HPKE (RFC 9180), base mode: DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM.
  const KEM = utf8('KEM\u0000\u0010')
  const SUITE = utf8('HPKE\u0000\u0010\u0000\u0001\u0000\u0002')
  const NOTHING = new Uint8Array(0)

  async function hmac(key, ...parts) {
    // WebCrypto takes no empty key; HMAC fills a short one up with zeros.
    const raw = key.length === 0 ? new Uint8Array(32) : key
    const imported = await subtle.importKey('raw', raw, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
    return new Uint8Array(await subtle.sign('HMAC', imported, join(...parts)))
  }
  const extract = (suite, salt, label, ikm) => hmac(salt, utf8('HPKE-v1'), suite, utf8(label), ikm)
  const expand = async (suite, prk, label, info, length) =>
    (await hmac(prk, [0, length], utf8('HPKE-v1'), suite, utf8(label), info, [1])).slice(0, length)

  async function openSealed(pair, publicKey, { enc, ciphertext }, info) {
    const theirs = await subtle.importKey('raw', enc, { name: 'ECDH', namedCurve: 'P-256' }, false, [])
    const dh = new Uint8Array(await subtle.deriveBits({ name: 'ECDH', public: theirs }, pair.privateKey, 256))
    const shared = await expand(
      KEM,
      await extract(KEM, NOTHING, 'eae_prk', dh),
      'shared_secret',
      join(enc, publicKey),
      32,
    )
    const context = join([0], await extract(SUITE, NOTHING, 'psk_id_hash', NOTHING), await extract(SUITE, NOTHING, 'info_hash', info)) // prettier-ignore
    const secret = await extract(SUITE, shared, 'secret', NOTHING)
    const key = await subtle.importKey('raw', await expand(SUITE, secret, 'key', context, 32), 'AES-GCM', false, ['decrypt']) // prettier-ignore
    const iv = await expand(SUITE, secret, 'base_nonce', context, 12)
    return new Uint8Array(await subtle.decrypt({ name: 'AES-GCM', iv }, key, ciphertext))
  }

  // Fields as the signer writes them: each a length of 4 bytes, big-endian, and so many bytes.
  const field = (bytes) => join([bytes.length >>> 24, (bytes.length >>> 16) & 255, (bytes.length >>> 8) & 255, bytes.length & 255], bytes) // prettier-ignore
  const infoOf = (user, address, request) =>
    join(...[utf8('chatelaine key export 1'), utf8(user), fromHex(address.slice(2)), utf8(request)].map(field))

  // Keccak-256 as Ethereum has it: the padding of before FIPS 202.
  const MASK = (1n << 64n) - 1n
  const rotate = (word, by) => (by === 0n ? word : ((word << by) | (word >> (64n - by))) & MASK)
  function permute(state) {
    let lfsr = 1
    for (let round = 0; round < 24; round++) {
      const columns = [0, 1, 2, 3, 4].map(
        (x) => state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20],
      )
      for (let at = 0; at < 25; at++) state[at] ^= columns[(at + 4) % 5] ^ rotate(columns[(at + 1) % 5], 1n)
      let [x, y, held] = [1, 0, state[1]]
      for (let step = 0; step < 24; step++) {
        ;[x, y] = [y, (2 * x + 3 * y) % 5]
        const moved = rotate(held, BigInt((((step + 1) * (step + 2)) / 2) % 64))
        held = state[x + 5 * y]
        state[x + 5 * y] = moved
      }
      for (let row = 0; row < 25; row += 5) {
        const before = state.slice(row, row + 5)
        for (let at = 0; at < 5; at++)
          state[row + at] = before[at] ^ (~before[(at + 1) % 5] & MASK & before[(at + 2) % 5])
      }
      for (let bit = 0; bit < 7; bit++) {
        if ((lfsr & 1) === 1) state[0] ^= 1n << BigInt(2 ** bit - 1)
        lfsr = ((lfsr << 1) ^ ((lfsr >> 7) * 0x171)) & 0xff
      }
    }
  }
  function keccak(bytes) {
    const rate = 136
    const padded = new Uint8Array((Math.floor(bytes.length / rate) + 1) * rate)
    padded.set(bytes)
    padded[bytes.length] ^= 1
    padded[padded.length - 1] ^= 128
    const state = Array.from({ length: 25 }, () => 0n)
    const view = new DataView(padded.buffer)
    for (let block = 0; block < padded.length; block += rate) {
      for (let at = 0; at < rate / 8; at++) state[at] ^= view.getBigUint64(block + at * 8, true)
      permute(state)
    }
    const out = new DataView(new ArrayBuffer(32))
    for (let at = 0; at < 4; at++) out.setBigUint64(at * 8, state[at], true)
    return new Uint8Array(out.buffer)
  }

  // The address of a key on secp256k1: what arrives is compared with what the page shows.
  const P = 2n ** 256n - 2n ** 32n - 977n
  const G = [
    0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798n,
    0x483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8n,
  ]
  const modulo = (value) => ((value % P) + P) % P
  function power(base, exponent) {
    let [result, square] = [1n, modulo(base)]
    for (let left = exponent; left > 0n; left >>= 1n) {
      if ((left & 1n) === 1n) result = modulo(result * square)
      square = modulo(square * square)
    }
    return result
  }
  function add(one, other) {
    if (one === null) return other
    if (other === null) return one
    if (one[0] === other[0] && one[1] !== other[1]) return null
    const slope =
      one[0] === other[0]
        ? 3n * one[0] * one[0] * power(2n * one[1], P - 2n)
        : (other[1] - one[1]) * power(other[0] - one[0], P - 2n)
    const x = modulo(slope * slope - one[0] - other[0])
    return [x, modulo(slope * (one[0] - x) - one[1])]
  }
  function addressOf(key) {
    let [point, double] = [null, G]
    for (let left = BigInt(`0x${hex(key)}`); left > 0n; left >>= 1n) {
      if ((left & 1n) === 1n) point = add(point, double)
      double = add(double, double)
    }
    const both = point.map((half) => half.toString(16).padStart(64, '0')).join('')
    return `0x${hex(keccak(fromHex(both)).slice(12))}`
  }

  // Web3 Secret Storage, version 3; WebCrypto has no scrypt.
  const ROUNDS = 600_000
  async function keystore(key, address, password) {
    const salt = crypto.getRandomValues(new Uint8Array(32))
    const iv = crypto.getRandomValues(new Uint8Array(16))
    // As wallets read it: NFKC.
    const secret = await subtle.importKey('raw', utf8(password.normalize('NFKC')), 'PBKDF2', false, ['deriveBits'])
    const derived = new Uint8Array(await subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-256', salt, iterations: ROUNDS }, secret, 256)) // prettier-ignore
    const cipher = await subtle.importKey('raw', derived.slice(0, 16), 'AES-CTR', false, ['encrypt'])
    const ciphertext = new Uint8Array(await subtle.encrypt({ name: 'AES-CTR', counter: iv, length: 128 }, cipher, key))
    const mac = keccak(join(derived.slice(16, 32), ciphertext))
    derived.fill(0)
    return JSON.stringify({
      version: 3,
      id: crypto.randomUUID(),
      address: address.slice(2).toLowerCase(),
      crypto: {
        cipher: 'aes-128-ctr',
        cipherparams: { iv: hex(iv) },
        ciphertext: hex(ciphertext),
        kdf: 'pbkdf2',
        kdfparams: { dklen: 32, c: ROUNDS, prf: 'hmac-sha256', salt: hex(salt) },
        mac: hex(mac),
      },
    })
  }

  class Said extends Error {}

  async function fetchSealed(publicKey) {
    const { csrf, request, old, failed } = form.dataset
    const body = new URLSearchParams({ csrf, request, recipient: toBase64Url(publicKey) })
    const response = await fetch('/account/export/take', { method: 'POST', body, redirect: 'manual' })
    // A sign-in is asked for by sending the browser there.
    if (response.type === 'opaqueredirect') throw new Said(old)
    if (!response.ok) throw new Said(failed)
    const { enc, ciphertext } = await response.json()
    return { enc: fromBase64Url(enc), ciphertext: fromBase64Url(ciphertext) }
  }

  // One for as long as the page is open: an answer that was lost on the way is asked for once more, and is for this one alone.
  let pair = null

  async function work(password) {
    const { user, address, request, wrong } = form.dataset
    pair ??= await subtle.generateKey({ name: 'ECDH', namedCurve: 'P-256' }, false, ['deriveBits'])
    const publicKey = new Uint8Array(await subtle.exportKey('raw', pair.publicKey))
    const sealed = await fetchSealed(publicKey)
    const key = await openSealed(pair, publicKey, sealed, infoOf(user, address, request))
    try {
      if (key.length !== 32 || addressOf(key) !== address.toLowerCase()) throw new Said(wrong)
      save(`key-${address}.json`, await keystore(key, address, password))
    } finally {
      key.fill(0)
    }
  }

  function save(name, text) {
    const link = document.createElement('a')
    link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }))
    link.download = name
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
  }

  if (form !== null && subtle !== undefined) {
    form.hidden = false
    document.getElementById('needs-script').hidden = true
    const [password, again] = form.querySelectorAll('input')
    const button = form.querySelector('button')
    const state = document.getElementById('export-state')
    const say = (text) => {
      state.textContent = text
      state.hidden = false
    }
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      if (password.value.length < 12) return say(form.dataset.short)
      if (password.value !== again.value) return say(form.dataset.differ)
      button.disabled = true
      say(form.dataset.working)
      work(password.value)
        .then(() => {
          say(form.dataset.done)
          password.value = again.value = ''
          // Nothing is left to cancel. The file can be had once more while the page is open, where saving it failed.
          document.getElementById('until-taken').hidden = true
        })
        .catch((error) => say(error instanceof Said ? error.message : form.dataset.failed))
        .finally(() => (button.disabled = false))
    })
  }
}
