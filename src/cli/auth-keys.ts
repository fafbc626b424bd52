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
  if (AUTH_KEYS_FILE === undefined) throw new Error('AUTH_KEYS_FILE is missing: the file to write.')
  return keyFiles(env)
}

async function create({ env, console }: Shell): Promise<void> {
  const { keysFile, jwksFile } = files(env)
  if (existsSync(keysFile))
    throw new Error(
      `${keysFile} already exists: replacing it would end every session. To rotate the keys: auth-keys prepare.`,
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
      throw new Error('A key rotation is in progress: finish it with auth-keys switch and auth-keys drop.')
    // Later than all existing keys, even if the clock was set back, because `drop` compares these times.
    const iat = Math.max(systemClock.wall() / 1_000, ...keys.map((key) => madeAt(key) + 1))
    return {
      keys: [...keys, { ...newKey('ES256'), iat }, { ...newKey('RS256'), iat }],
      seals: [...seals, newSealKey()],
    }
  })
  console.log(
    'New keys are prepared. Let the signer trust them (auth-keys fingerprints, signer trust-key --accept) and restart every server, so that all of them publish and accept the keys; then: switch.',
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
    'The other keys sign once every server has been restarted. Wait SESSION_SECONDS before drop: people who come back within that time stay signed in.',
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
    throw new Error('--leaked removes the old keys, --prepared the new ones. Nothing was changed: say one of them.')
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
    `${removed} is removed, ${kept} signs. Restart every server; what the removed keys signed is not accepted from then on, nor by the signer after signer trust-key --remove ${removed}.`,
  )
  if (!leaked) return
  console.log('No application, consent, linked identity or sign-in is believed any more: from that start on they are refused, until auth-keys authenticate-rows has listed them and you accepted them. Do it right before the start, without --with-sign-ins.') // prettier-ignore
}

/** Checks that no row depends on the keys to be removed. @throws Error if one would lose its seal */
async function assertRenewed(env: Environment, { seals }: PrivateKeys): Promise<void> {
  const sealKeys = sealKeysOf(seals)
  const rows = await withDatabase(readInstallationSettings(env), (db) => countOnOlderKeys({ db, sealKeys }))
  if (rows > 0)
    throw new Error(
      `The old key still seals ${rows} rows, which would count as absent without it. Start the authorization server with the keys of switch: it renews them, and says so (rows_renewed). Then: drop. For leaked keys: drop --leaked.`,
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
      throw new Error('The applications, consents or linked identities that are not authentic are others than were listed. Nothing was changed: list them again, and accept what that list ends with.') // prettier-ignore
    const { applications, consents, identities, ledBack, signIns } = done
    console.log(
      `Authenticated: ${applications} applications, ${consents} consents, ${identities} linked identities, ${signIns} rows of sign-ins. ${ledBack} identities are led back to the account that is theirs.`,
    )
  })
}

function printUnauthentic({ console }: Shell, unauthentic: UnauthenticRows): void {
  const { applications, consents, identities, signIns, digest } = unauthentic
  for (const one of applications)
    console.log(plain(`application ${one.client_id} "${one.name}" on chain ${one.chain_id}: ${one.kind}${one.suspended_at === null ? '' : ', suspended'}; may ${listed(one.permissions)}; sends to ${listed(one.redirect_uris)}; origins ${listed(one.allowed_origins)}; ${one.secret_hashes.length} secrets; people of ${listed(one.issuers.map((issuer) => JSON.stringify(issuer)))}; PKCE ${one.needs_pkce ? 'needed' : 'not needed'}`)) // prettier-ignore
  for (const { clientId, permissions, people } of consents)
    console.log(plain(`${people} people allowed ${clientId}: ${listed(permissions)}`))
  for (const { identity, userId, isMoved } of identities)
    console.log(`${plain(identity)} signs in as ${plain(userId)}${isMoved ? ', although it has an account of its own' : ''}`) // prettier-ignore
  for (const [kind, count] of Object.entries(signIns)) console.log(`${count} of kind ${plain(kind)}`)
  console.log(
    `${identities.some(({ isMoved }) => isMoved) ? LED_BACK : ''}${applications.length} applications and ${identities.length} linked identities are not authentic. Look at each: where an application sends people, tokens leave, and an identity signs in. What is listed here is believed with:\n  chatelaine auth-keys authenticate-rows --accept ${digest} [--with-sign-ins]`,
  )
}

const listed = (some: string[]): string => (some.length === 0 ? 'none' : some.join(' '))

const LED_BACK =
  'An identity with an account of its own was moved by someone else: what has an account of its own cannot be linked. It is led back to it, and the other account keeps its first identity.\n'

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
  if (!isUnderWay(keys)) throw new Error('There is no second set of keys: start with auth-keys prepare.')
}

/** Checks that `drop` removes what the rotation is meant to remove: the old keys, or with --prepared the new ones. */
function assertDroppable(keys: PrivateKey[], prepared: boolean): void {
  assertUnderWay(keys)
  const [signing, others] = [signingOf(keys), othersOf(keys)].map((some) => Math.max(...some.map(madeAt)))
  if (!prepared && signing! < others!)
    throw new Error(
      `The old keys still sign (${fingerprintOf(signingOf(keys))}), and drop would keep them. Nothing was changed: auth-keys switch comes first, and a restart of every server. To stay with the old ones: drop --prepared.`,
    )
  if (prepared && signing! >= others!)
    throw new Error(
      'The new keys sign. Nothing was changed: auth-keys switch goes back, and a restart of every server.',
    )
}
