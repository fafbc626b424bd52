import assert from 'node:assert/strict'
import { existsSync, readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { keyServices } from '../../test/key-services/opened.ts'
import { skip, softHsm } from '../../test/softhsm.ts'
import { ask, makePlace, startSigner, type Running } from '../../test/kit/signer.ts'
import { openNative } from '../secp256k1.ts'

const at = (file: string) => new URL(`../../test/${file}`, import.meta.url).href
const [RECORD, WITHOUT_NATIVE] = [at('record-modules.mjs'), at('without-native.mjs')]

/** Packages of which a signer has resolved a module, a native one too, after it made an account and signed. */
async function packagesOf(imports: string[], kek: Record<string, string> = {}): Promise<string[]> {
  const modules = await modulesOf(imports, kek)
  const names = modules.matchAll(/node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules)/g)
  return [...new Set([...names].map(([, name]) => name!))].toSorted()
}

/** @param look  at the signer while it runs */
async function modulesOf(
  imports: string[],
  kek: Record<string, string>,
  look: (signer: Running) => void = () => {},
): Promise<string> {
  const place = await makePlace()
  if ('SIGNER_KEK' in kek) delete place.env.SIGNER_KEK_FILE
  Object.assign(place.env, kek)
  const record = join(place.folder, 'modules')
  const NODE_OPTIONS = imports.map((url) => `--import=${url}`).join(' ')
  try {
    const signer = await startSigner(place, { more: { NODE_OPTIONS, RECORD_MODULES: record } })
    const { address } = await signer.createAccount({ userId: 'X-alice' })
    await signer.sign(ask(address, { accessToken: await place.token('X-alice') }))
    await signer.health()
    look(signer)
    await signer.end('SIGTERM')
    return readFileSync(record, 'utf8')
  } finally {
    place.clear()
  }
}

test('the process that holds the keys runs the code of at most three packages', async () => {
  const native = openNative() === null ? [] : ['jose', 'secp256k1']
  if (native.length > 0) assert.deepEqual(await packagesOf([RECORD]), native)
  // The WebAssembly one has a dependency of its own.
  assert.deepEqual(await packagesOf([RECORD, WITHOUT_NATIVE]), ['jose', 'tiny-secp256k1', 'uint8array-tools'])
})

test('a master key in a token adds one, and only there', { skip }, async (t) => {
  const hsm = softHsm(t)
  hsm.makeToken('custody')
  const kek = { ...hsm.env, SIGNER_KEK: hsm.uri('custody'), SIGNER_KEK_PIN_FILE: hsm.pinFile }
  const native = openNative() === null ? ['tiny-secp256k1', 'uint8array-tools'] : ['secp256k1']
  assert.deepEqual(await packagesOf([RECORD], kek), ['jose', 'pkcs11js', ...native])
})

/** What could reach a network: those of Node’s modules, and ours that use them. */
const REACHING =
  /^node:(?:https?|http2|tls|dns|dgram)(?:\/.*)?$|\/kek\/(?:service|vault|aws-kms|gcp-kms|gcp-token)\.ts$/gm

test('without a key service the signer loads nothing that reaches a network, and has no socket but Unix ones; the documented unit lets it have none', async () => {
  const modules = await modulesOf([RECORD], {}, ({ pid }) => {
    if (!existsSync('/proc/net/unix')) return
    const open = readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      const [, inode] = /^socket:\[(\d+)\]$/.exec(linkOf(`/proc/${pid}/fd/${fd}`)) ?? []
      return inode === undefined ? [] : [inode]
    })
    assert.ok(open.length > 0)
    for (const family of ['tcp', 'tcp6', 'udp', 'udp6', 'raw'].filter((name) => existsSync(`/proc/net/${name}`))) {
      const inodes = readFileSync(`/proc/net/${family}`, 'utf8').split('\n').map((line) => line.trim().split(/\s+/)[9]) // prettier-ignore
      assert.deepEqual(open.filter((inode) => inodes.includes(inode)), [], family) // prettier-ignore
    }
  })
  assert.ok(modules.includes('/kek/file.ts'))
  assert.deepEqual(modules.match(REACHING), null)
  for (const page of ['signer-setup', 'debian']) {
    const text = readFileSync(new URL(`../../docs/operate/${page}.md`, import.meta.url), 'utf8')
    assert.match(text, /^\[Service\]$[^]*?^RestrictAddressFamilies=AF_UNIX$/m, page)
  }
})

test('with a key service it loads the client of that one, and no package more', async (t) => {
  const { uri, files } = await keyServices.vault(t)
  const kek = { SIGNER_KEK: uri, SIGNER_KEK_TOKEN_FILE: files.tokenFile! }
  const ours = [...new Set((await modulesOf([RECORD], kek)).match(REACHING)!.map((one) => one.replace(/^.*\//, '')))]
  assert.deepEqual(ours.filter((one) => one.endsWith('.ts')).toSorted(), ['service.ts', 'vault.ts']) // prettier-ignore
  const native = openNative() === null ? ['tiny-secp256k1', 'uint8array-tools'] : ['secp256k1']
  assert.deepEqual(await packagesOf([RECORD], kek), ['jose', ...native])
})

/** '' where it was closed meanwhile */
function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
