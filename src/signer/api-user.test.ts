import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { chmodSync, chownSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { text } from 'node:stream/consumers'
import { productionSigner } from '../../test/production-signer.ts'
import { ALICE, ask, CHAIN_ID, ISSUER } from '../../test/kit/signer.ts'
import { anchorOf } from './tokens/anchor.ts'
import { connectSigner } from '../signer-wire/client.ts'
import { adminSocketIn } from './socket.ts'

const MINTINGS = 200
/** of nobody on this machine: the API's, and the group by which it may use the signer's socket */
const [API_USER, GROUP] = [54_321, 54_322]

/** What a shell of the API's user tries: it says for each what came of it. Told in one object, which is the first argument. */
const SHELL = `
import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import { appendFileSync, openSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
const { pid, read, write, folders, sockets, api, jwksFile, known, claims, request, mintings } = JSON.parse(process.argv[2])
const tried = {}
const outcome = (name, work) => { try { work(); tried[name] = 'done' } catch (error) { tried[name] = error.code ?? error.message } }
for (const path of read) outcome('read ' + path, () => openSync(path, 'r'))
for (const path of write) outcome('write ' + path, () => openSync(path, 'a'))
for (const path of folders) {
  outcome('list ' + path, () => readdirSync(path))
  outcome('put into ' + path, () => writeFileSync(path + '/mine', ''))
  outcome('rename ' + path, () => renameSync(path, path + '-gone'))
}
for (const path of [...read, ...sockets, api]) outcome('remove ' + path, () => rmSync(path))
for (const signal of ['SIGUSR1', 'SIGQUIT', 'SIGKILL']) outcome(signal, () => process.kill(pid, signal))
const connected = (path) => new Promise((resolve) => {
  const socket = connect(path)
  socket.once('connect', () => (socket.destroy(), resolve('done'))).once('error', ({ code }) => resolve(code))
})
for (const path of sockets) tried['connect to ' + path] = await connected(path)

// Its own key is offered beside the real one: it may write what the server writes.
const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const own = { ...publicKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig' }
const offered = [{ ...own, kid: 'mine' }, { ...own, kid: known.kid }, known]
writeFileSync(jwksFile, JSON.stringify({ keys: offered }))
await new Promise((resolve) => setTimeout(resolve, 1_500))
const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')
const es256 = (signed) => sign('sha256', Buffer.from(signed), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')
const hs256 = (secret) => (signed) => createHmac('sha256', secret).update(signed).digest('base64url')
const kinds = [
  [{ alg: 'ES256', kid: 'mine' }, es256],
  [{ alg: 'ES256', kid: known.kid }, es256],
  [{ alg: 'ES256', kid: known.kid, jwk: own }, es256],
  [{ alg: 'none', kid: known.kid }, () => ''],
  [{ alg: 'HS256', kid: known.kid }, hs256(JSON.stringify(known))],
  [{ alg: 'HS256', kid: known.kid }, hs256(Buffer.from(known.x, 'base64url'))],
  [{ alg: 'ES256' }, es256],
  [{ alg: 'ES256', kid: known.kid }, () => Buffer.alloc(64).toString('base64url')],
]
const minted = { answers: 0, codes: {} }
const socket = connect(api)
let rest = Buffer.alloc(0)
const answers = new Map()
socket.on('data', (chunk) => {
  rest = Buffer.concat([rest, chunk])
  while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32BE(0)) {
    const length = rest.readUInt32BE(0)
    const message = JSON.parse(rest.subarray(4, 4 + length))
    rest = rest.subarray(4 + length)
    answers.get(message.id)(message)
  }
})
for (let id = 1; id <= mintings; id += 1) {
  const [header, signature] = kinds[id % kinds.length]
  const seconds = Math.floor(Date.now() / 1_000)
  const signed = part({ typ: 'at+jwt', ...header }) + '.' + part({ ...claims, iat: seconds, exp: seconds + 600, jti: 'j' + id })
  const body = Buffer.from(JSON.stringify({ id, verb: 'sign', request: { ...request, intentId: 'tx_minted_' + id, accessToken: signed + '.' + signature(signed) } }))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(body.length)
  const answered = new Promise((resolve) => answers.set(id, resolve))
  socket.write(Buffer.concat([length, body]))
  const { error } = await answered
  if (error === undefined) minted.answers += 1
  else minted.codes[error.code] = (minted.codes[error.code] ?? 0) + 1
}
socket.destroy()
console.log(JSON.stringify({ tried, minted }))
`

test(
  `a shell of the API’s user mints 0 of ${MINTINGS} tokens, writes nothing of the signer’s, and reads none of its secrets`,
  { skip: process.getuid?.() !== 0 && 'needs root' },
  async (t) => {
    const { env, folder, newKey, offer, trust, start } = await productionSigner(t)
    const at = (name: string): string => join(folder, name)
    // As the guide for separate users has it: the signer's and the authorization server's folders are their own.
    chmodSync(folder, 0o711)
    for (const name of ['auth', 'api']) mkdirSync(at(name), { mode: name === 'auth' ? 0o700 : 0o755 })
    writeFileSync(at('auth/keys.json'), '{}', { mode: 0o600 })
    const sockets = { api: at('api/signer.sock'), auth: at('auth/signer.sock') }
    Object.assign(env, { SIGNER_SOCKET: sockets.api, SIGNER_AUTH_SOCKET: sockets.auth, SIGNER_SOCKET_MODE: '660', SIGNER_AUDIENCE: 'http://localhost:4001/v1' }) // prettier-ignore
    const own = await newKey('first')
    offer(own.jwk)
    assert.equal((await trust('--accept', own.fingerprint)).code, 0)
    const signer = await start()
    const auth = connectSigner({ path: sockets.auth })
    t.after(async () => {
      auth.close()
      await signer.end('SIGKILL')
    })
    chownSync(sockets.api, 0, GROUP)
    // The worst: it may write what the server offers.
    chownSync(env.SIGNER_JWKS_FILE!, API_USER, GROUP)
    await auth.bringRevocations([await own.list()])
    const { address } = await auth.createAccount({ userId: ALICE })
    const anchor = anchorOf(env.SIGNER_DIR!)
    const before = { anchor: readFileSync(anchor, 'utf8'), ledger: ledgerOf(env.SIGNER_DIR!) }

    // A copy of Node.js of its own: the project may lie where that user sees nothing.
    copyFileSync(process.execPath, at('api/node'))
    chmodSync(at('api/node'), 0o755)
    writeFileSync(at('api/shell.mjs'), SHELL)
    const proc = `/proc/${signer.pid}`
    const told = {
      pid: signer.pid,
      read: [env.SIGNER_KEK_FILE!, join(env.SIGNER_DIR!, 'signer.sqlite'), anchor, at('auth/keys.json'), `${proc}/environ`, `${proc}/mem`, `${proc}/maps`], // prettier-ignore
      write: [env.SIGNER_KEK_FILE!, anchor, join(env.SIGNER_DIR!, 'signer.sqlite'), at('auth/keys.json')],
      folders: [env.SIGNER_DIR!, at('auth')],
      sockets: [sockets.auth, adminSocketIn(env.SIGNER_DIR!)],
      api: sockets.api,
      jwksFile: env.SIGNER_JWKS_FILE!,
      known: { ...own.jwk, kid: own.fingerprint },
      claims: { iss: ISSUER, aud: env.SIGNER_AUDIENCE, sub: ALICE, client_id: 'shop', scope: 'openid contracts:write', chain_id: CHAIN_ID, gid: 'g' }, // prettier-ignore
      request: ask(address),
      mintings: MINTINGS,
    }
    const shell = spawn(at('api/node'), [at('api/shell.mjs'), JSON.stringify(told)], { uid: API_USER, gid: GROUP, cwd: at('api'), env: {} }) // prettier-ignore
    const [out, err] = await Promise.all([text(shell.stdout), text(shell.stderr)])
    assert.equal(err, '')
    const { tried, minted } = JSON.parse(out) as { tried: Record<string, string>; minted: { answers: number; codes: object } } // prettier-ignore
    assert.deepEqual(minted, { answers: 0, codes: { invalid_token: MINTINGS } })
    const succeeded = Object.entries(tried).filter(([, came]) => !['EACCES', 'EPERM'].includes(came))
    assert.deepEqual(succeeded, [])
    assert.equal(Object.keys(tried).length, 7 + 4 + 6 + 10 + 3 + 2)
    assert.deepEqual({ anchor: readFileSync(anchor, 'utf8'), ledger: ledgerOf(env.SIGNER_DIR!) }, before)
    // The signer is there, and signs for a token that is one.
    await signer.sign(ask(address, { accessToken: await own.token() }))
    assert.equal(ledgerOf(env.SIGNER_DIR!), before.ledger + 1)
  },
)

function ledgerOf(folder: string): number {
  const db = new DatabaseSync(join(folder, 'signer.sqlite'), { readOnly: true })
  try {
    return (db.prepare('SELECT count(*) AS count FROM ledger').get() as { count: number }).count
  } finally {
    db.close()
  }
}
