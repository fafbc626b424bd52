import { existsSync } from 'node:fs'
import { Command } from 'commander'
import { readSome, type Environment } from '../config.ts'
import {
  authenticateRows,
  countOnOlderKeys,
  listUnauthentic,
  type UnauthenticRows,
} from '../oauth/authenticate-rows.ts'
import { changeKeys, loadKeys, newKey, type PrivateKey, type PrivateKeys } from '../oauth/keys.ts'
import { newSealKey, sealKeysOf } from '../oauth/seal-keys.ts'
import { readInstallationSettings, withDatabase } from './database.ts'
import { keyFiles } from './key-files.ts'
import { inShell, type Shell } from './shell.ts'
import { systemClock } from '../clock.ts'

/**
 * Builds `chatelaine auth-keys …`: the keys of the authorization server, which production does not create by itself.
 */
export function authKeys(shell: Shell): Command {
  const command = new Command('auth-keys').description('manage the keys of the authorization server')
  command
    .command('create')
    .description('write new keys to AUTH_KEYS_FILE and the public keys beside it; never overwrites a file')
    .action(inShell(shell, create))
  command
    .command('prepare')
    .description('first step of a rotation: publish new keys, which do not sign yet')
    .action(inShell(shell, prepare))
  command
    .command('switch')
    .description('second step: sign with the new keys, still accept the old ones; run it again to go back')
    .action(inShell(shell, switchOver))
  command
    .command('fingerprints')
    .description('print the fingerprints of the token keys, the one in use first, for `chatelaine signer trust-key`')
    .action(inShell(shell, fingerprints))
  command
    .command('authenticate-rows')
    .description('list applications, consents, linked identities and sign-ins without a valid seal, and accept them')
    .option('--accept <digest>', 'accept exactly the listed rows; the digest is the last line of the list')
    .option('--with-sign-ins', 'with --accept: also sessions and refresh tokens; without it their users sign in again')
    .action(inShell(shell, authenticate))
  command
    .command('drop')
    .description('last step: remove the keys that do not sign')
    .option('--leaked', 'the old keys leaked: reject everything that they sealed until you accept it again')
    .option('--prepared', 'end the rotation and remove the new keys, which must not sign yet')
    .action(inShell(shell, drop))
  return command
}

function files(env: Environment): { keysFile: string; jwksFile: string } {
  const { AUTH_KEYS_FILE } = readSome(env, ['AUTH_KEYS_FILE'])
  if (AUTH_KEYS_FILE === undefined) throw new Error('AUTH_KEYS_FILE is missing. Set it to the file to write.')
  return keyFiles(env)
}

async function create({ env, console }: Shell): Promise<void> {
  const { keysFile, jwksFile } = files(env)
  if (existsSync(keysFile))
    throw new Error(
      `${keysFile} already exists. Replacing it would end every session. To rotate the keys, run auth-keys prepare.`,
    )
  const { keys } = await loadKeys({ keysFile, jwksFile, create: true })
  const fingerprint = keys.find(({ alg }) => alg === 'ES256')!.kid
  console.log(
    `Private keys: ${keysFile} (readable by the server's user only)\nPublic keys:  ${jwksFile} (SIGNER_JWKS_FILE)\nFingerprint:  ${fingerprint} (chatelaine signer trust-key --accept)`,
  )
}

async function fingerprints({ env, console }: Shell): Promise<void> {
  for (const { alg, kid } of (await loadKeys({ ...files(env), create: false })).keys)
    if (alg === 'ES256') console.log(kid)
}

async function prepare({ env, console }: Shell): Promise<void> {
  await changeKeys(files(env), ({ keys, seals }) => {
    if (isUnderWay(keys))
      throw new Error('A key rotation is in progress. Finish it with auth-keys switch and auth-keys drop.')
    // Later than all existing keys, even if the clock was set back, because `drop` compares these times.
    const iat = Math.max(systemClock.wall() / 1_000, ...keys.map((key) => madeAt(key) + 1))
    return {
      keys: [...keys, { ...newKey('ES256'), iat }, { ...newKey('RS256'), iat }],
      seals: [...seals, newSealKey()],
    }
  })
  console.log(
    'The new keys are prepared. Next:\n  1. Make the signer trust them: auth-keys fingerprints, then signer trust-key --accept.\n  2. Restart every server: each then publishes and accepts the new keys.\n  3. Run auth-keys switch.',
  )
}

async function switchOver({ env, console }: Shell): Promise<void> {
  await changeKeys(files(env), ({ keys, seals }) => {
    assertUnderWay(keys)
    const signing = signingOf(keys)
    return {
      keys: [...keys.filter((key) => !signing.includes(key)), ...signing],
      seals: seals.toReversed(),
    }
  })
  console.log(
    'The other keys sign after every server has restarted. Wait SESSION_SECONDS before auth-keys drop, so that users remain signed in.',
  )
}

/**
 * Removes the keys that do not sign. With --leaked, nothing remains trusted that the old keys sealed, nor its renewals:
 * a thief may have forged it.
 */
async function drop(
  { env, console }: Shell,
  { leaked = false, prepared = false }: { leaked?: boolean; prepared?: boolean },
): Promise<void> {
  if (leaked && prepared)
    throw new Error(
      '--leaked removes the old keys, --prepared the new ones. Nothing was changed. Give only one option.',
    )
  const before = await loadKeys({ ...files(env), create: false })
  assertDroppable(before.keys, prepared)
  if (!leaked) await assertRenewed(env, before)
  let [kept, removed] = ['', '']
  await changeKeys(files(env), ({ keys, seals }) => {
    assertDroppable(keys, prepared)
    const signing = signingOf(keys)
    ;[kept, removed] = [fingerprintOf(signing), fingerprintOf(othersOf(keys))]
    return { keys: signing, seals: [leaked ? newSealKey() : seals[0]!] }
  })
  console.log(
    `${removed} is removed, ${kept} signs. Restart every server: it then rejects tokens of the removed keys. To make the signer reject them, run signer trust-key --remove ${removed}.`,
  )
  if (!leaked) return
  console.log('After the restart, all sealed applications, consents, linked identities and sign-ins are rejected. Run auth-keys authenticate-rows right before the restart, without --with-sign-ins.') // prettier-ignore
}

/** Checks that no row depends on the keys to be removed. @throws Error if one would lose its seal */
async function assertRenewed(env: Environment, { seals }: PrivateKeys): Promise<void> {
  const sealKeys = sealKeysOf(seals)
  const rows = await withDatabase(readInstallationSettings(env), (db) => countOnOlderKeys({ db, sealKeys }))
  if (rows > 0)
    throw new Error(
      `The old key still seals ${rows} rows, which would be ignored without it. Start the authorization server with the keys of auth-keys switch and wait for rows_renewed in its log. Then run auth-keys drop. If the old keys leaked, run auth-keys drop --leaked.`,
    )
}

async function authenticate(
  shell: Shell,
  {
    accept,
    withSignIns = false,
  }: {
    accept?: string
    withSignIns?: boolean
  },
): Promise<void> {
  const { env, console } = shell
  const sealKeys = sealKeysOf((await loadKeys({ ...files(env), create: false })).seals)
  await withDatabase(readInstallationSettings(env), async (db) => {
    if (accept === undefined) return printUnauthentic(shell, await listUnauthentic({ db, sealKeys }))
    const done = await authenticateRows({ db, sealKeys }, { listed: accept, withSignIns })
    if (done === null)
      throw new Error('The rows have changed since you listed them. Nothing was changed. List them again and accept the new digest.') // prettier-ignore
    const { applications, consents, identities, ledBack, operators, signIns } = done
    console.log(
      `Accepted: ${applications} applications, ${consents} consents, ${identities} linked identities, ${operators} operators of the console, ${signIns} rows of sign-ins. ${ledBack} identities sign in to their own account again.`,
    )
  })
}

function printUnauthentic({ console }: Shell, unauthentic: UnauthenticRows): void {
  const { applications, consents, identities, operators, signIns, digest } = unauthentic
  for (const one of applications)
    console.log(plain(`application ${one.client_id} "${one.name}" on chain ${one.chain_id}: ${one.kind}${one.suspended_at === null ? '' : ', suspended'}; permissions ${listed(one.permissions)}; redirect URIs ${listed(one.redirect_uris)}; origins ${listed(one.allowed_origins)}; ${one.secret_hashes.length} secrets; trusted issuers ${listed(one.issuers.map((issuer) => JSON.stringify(issuer)))}; PKCE ${one.needs_pkce ? 'required' : 'not required'}`)) // prettier-ignore
  for (const { clientId, permissions, people } of consents)
    console.log(plain(`${people} users allowed ${clientId}: ${listed(permissions)}`))
  for (const { identity, userId, isMoved } of identities)
    console.log(`${plain(identity)} signs in as ${plain(userId)}${isMoved ? ', although the identity has its own account' : ''}`) // prettier-ignore
  for (const { userId, role } of operators) console.log(`${plain(userId)} is ${plain(role)} of the console`)
  for (const [kind, count] of Object.entries(signIns)) console.log(`${count} rows of kind ${plain(kind)}`)
  console.log(
    `${identities.some(({ isMoved }) => isMoved) ? LED_BACK : ''}${applications.length} applications, ${identities.length} linked identities and ${operators.length} operators of the console have no valid seal. Check each redirect URI: access tokens are sent there. Check each identity: it signs in to the account. Check each operator and role. To accept this list:\n  chatelaine auth-keys authenticate-rows --accept ${digest} [--with-sign-ins]`,
  )
}

const listed = (some: string[]): string => (some.length === 0 ? 'none' : some.join(' '))

const LED_BACK =
  'An identity with its own account cannot be linked, so this link was forged. If you accept, the identity signs in to its own account again. The other account retains its first identity.\n'

/** Escapes untrusted text from a table, so that it cannot move the cursor or change the writing direction. */
const plain = (text: string): string =>
  text.replaceAll(/[\\\p{C}\p{Zl}\p{Zp}]/gu, (sign) => `\\u{${sign.codePointAt(0)!.toString(16)}}`)

/** Returns the signing keys: the first of each algorithm. */
const signingOf = (keys: PrivateKey[]): PrivateKey[] =>
  keys.filter(({ alg }, index) => keys.findIndex((other) => other.alg === alg) === index)

/** Returns the other keys, which only verify. */
const othersOf = (keys: PrivateKey[]): PrivateKey[] => {
  const signing = signingOf(keys)
  return keys.filter((key) => !signing.includes(key))
}

/** Returns the fingerprints of a set of keys, as `auth-keys fingerprints` and `signer trust-key` show them. */
const fingerprintOf = (keys: PrivateKey[]): string =>
  keys
    .filter(({ alg }) => alg === 'ES256')
    .map(({ kid }) => kid)
    .join(' ')

/** Returns when a key was created. The first keys have no time and count as oldest. */
const madeAt = ({ iat }: PrivateKey): number => (typeof iat === 'number' ? iat : 0)

const isUnderWay = (keys: PrivateKey[]): boolean => keys.length > 2

function assertUnderWay(keys: PrivateKey[]): void {
  if (!isUnderWay(keys)) throw new Error('There is no second set of keys. Run auth-keys prepare first.')
}

/** Checks that `drop` removes what the rotation is meant to remove: the old keys, or with --prepared the new ones. */
function assertDroppable(keys: PrivateKey[], prepared: boolean): void {
  assertUnderWay(keys)
  const [signing, others] = [signingOf(keys), othersOf(keys)].map((some) => Math.max(...some.map(madeAt)))
  if (!prepared && signing! < others!)
    throw new Error(
      `The old keys still sign (${fingerprintOf(signingOf(keys))}). Nothing was changed. First run auth-keys switch and restart every server. To cancel the rotation, run auth-keys drop --prepared.`,
    )
  if (prepared && signing! >= others!)
    throw new Error(
      'The new keys sign. Nothing was changed. To return to the old keys, run auth-keys switch and restart every server.',
    )
}
