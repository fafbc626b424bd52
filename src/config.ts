import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { brandProblems } from './brand-settings.ts'
import { DELEGATES } from './ids.ts'
import { misspelt } from './misspelt.ts'
import { readNativeDecimals } from './native-decimals.ts'
import { amountIn, wholeIn } from './digits.ts'

/**
 * The settings of all programs, also listed in `docs/reference/configuration.md`. Without NODE_ENV=production the
 * server runs in development mode, on loopback.
 */
type SettingKind =
  | 'text'
  | 'integer'
  | 'decimal'
  | 'url'
  | 'urls'
  | 'path'
  | 'choice'
  | 'wei'
  | 'proxies'
  | 'listen'
  | 'chains'
export type Environment = Record<string, string | undefined>
export type Setting = {
  kind: SettingKind
  unit?: string
  default?: string | number
  choices?: readonly string[]
  min?: number
  max?: number
  /** the program that reads the setting */
  part: 'server' | 'signer' | 'both'
  /** the group of the reference that shows the setting */
  group: keyof typeof settingGroups
  /** if true, the program does not start without the setting when NODE_ENV=production */
  productionRequired?: true
  help: string
}

/** The groups of settings in the order of the reference. `first` has the settings of docs/operate/deploy.md. */
export const settingGroups = {
  first: {
    title: 'The settings to know first',
    about: 'A production installation sets these: docs/operate/deploy.md.',
  },
  server: { title: 'Server', about: 'Addresses of the server, its log and its database connections.' },
  auth: { title: 'Authorization server', about: 'Keys and lifetimes of tokens, and the origin of a separate authorization server.' }, // prettier-ignore
  pages: { title: 'Pages for users', about: 'Name, colour and links of the sign-in and account pages: docs/operate/user-pages.md.' }, // prettier-ignore
  signer: { title: 'Signer', about: 'Sockets of the signer, the tokens that it accepts, and its switches: docs/operate/signer-setup.md.' }, // prettier-ignore
  'signing limits': { title: 'Limits of the signer', about: 'Upper bounds of the signer, independent of the server’s requests: docs/operate/signer-rules.md.' }, // prettier-ignore
  'master key': { title: 'Master key', about: 'Location of the key that opens all accounts, and of its successor: docs/operate/signer-keys.md.' }, // prettier-ignore
  network: {
    title: 'Networks',
    about: 'One network by settings; more by `chatelaine network add`: docs/operate/networks.md.',
  },
  gas: { title: 'Gas', about: 'The payer of gas, and maximum fees: docs/operate/gas/overview.md.' },
  history: { title: 'History', about: 'Past transfers and native currency in the history, and tokens that are spam.' },
  limits: {
    title: 'Limits of requests',
    about: 'Rate limits and bounds of one process: docs/build/limits-and-quotas.md.',
  },
  development: { title: 'Development', about: 'The embedded database and chain of an installation on one machine: docs/operate/local.md.' }, // prettier-ignore
} as const

// One line for each, so that it reads as the table it is.
// prettier-ignore
const keys = {
  NODE_ENV: { kind: 'choice', choices: ['development', 'test', 'production'], default: 'development', part: 'both', group: 'first', help: 'Mode. `production` turns off all development features and requires the settings marked so' },
  HOST: { kind: 'text', default: '127.0.0.1', part: 'server', group: 'server', help: 'Address to listen on. In development only loopback addresses, unless DEVELOPMENT_OPEN_TO allows others' },
  PORT: { kind: 'integer', min: 0, max: 65535, default: 4000, part: 'server', group: 'server', help: 'Port to listen on; 0 takes any free port' },
  PUBLIC_ORIGIN: { kind: 'url', part: 'server', group: 'first', productionRequired: true, help: 'Public origin as clients see it, https in production. Default: http://localhost:PORT' },
  OPS_LISTEN: { kind: 'listen', part: 'server', group: 'first', help: 'Address and port for operators, such as 127.0.0.1:9464: `/metrics`, and `/readyz` with every check. Without it production has neither; development has both on PORT' },
  DEVELOPMENT_OPEN_TO: { kind: 'choice', choices: ['this-machine', 'everyone'], default: 'this-machine', part: 'server', group: 'development', help: '`everyone` opens development mode to other machines, proxies and host names. Then anyone with access to it can sign in as anyone. Rejected in production' },
  DATA_DIR: { kind: 'path', default: '.chatelaine', part: 'server', group: 'development', help: 'Folder of a development installation: embedded database, chain, signer and keys. Production stores only networks.json there, unless NETWORKS_FILE is set' },
  DATABASE_URL: { kind: 'text', part: 'server', group: 'first', productionRequired: true, help: 'PostgreSQL connection string, `postgres://user:password@host:5432/database`, or a list of servers: docs/operate/high-availability.md. Without it: the embedded database' },
  DATABASE_POOLER: { kind: 'choice', choices: ['none', 'transaction'], default: 'none', part: 'server', group: 'server', help: '`transaction` if PgBouncer runs in front of PostgreSQL with `pool_mode = transaction`: docs/operate/high-availability.md#pgbouncer' },
  DATABASE_PREPARED: { kind: 'choice', choices: ['on', 'off'], part: 'server', group: 'server', help: 'Prepared statements for writes and sign-ins. Default: `on`; with DATABASE_POOLER=transaction `off`; `on` then requires PgBouncer 1.21 with `max_prepared_statements`' },
  DATABASE_POOL: { kind: 'integer', unit: 'connections', min: 1, max: 200, default: 16, part: 'server', group: 'server', help: 'PostgreSQL connections per process' },
  NETWORKS_FILE: { kind: 'path', part: 'server', group: 'first', help: 'JSON file with the node URLs of each network, which may contain keys. Default: DATA_DIR/networks.json' },
  RPC_URL: { kind: 'urls', part: 'server', group: 'network', help: 'Node URLs of one more network, which the NETWORK_… settings describe, separated by commas or spaces. It replaces the embedded chain. A ws or wss URL announces new blocks' },
  CHAIN_PORT: { kind: 'integer', min: 0, max: 65535, part: 'server', group: 'development', help: 'Port of the embedded chain. Default: 8545 if it is free, otherwise any' },
  CHAIN_BLOCK_SECONDS: { kind: 'decimal', unit: 'seconds', min: 0.05, max: 60, default: 1, part: 'server', group: 'development', help: 'Block time of the embedded chain' },
  NETWORK_NAME: { kind: 'text', default: 'devnet', part: 'server', group: 'network', help: 'Name of the network behind RPC_URL, in lower case' },
  NETWORK_SYMBOL: { kind: 'text', default: 'ETH', part: 'server', group: 'network', help: 'Symbol of the native currency' },
  NETWORK_COIN: { kind: 'text', default: 'Ether', part: 'server', group: 'network', help: 'Name of the native currency' },
  NETWORK_CHAIN_ID: { kind: 'integer', min: 1, part: 'server', group: 'network', help: 'Chain id that the node must report. Default: the first reported one, permanently' },
  NETWORK_EXPLORER: { kind: 'url', part: 'server', group: 'network', help: 'Block explorer with `/tx/`, `/address/` and `/block/` pages. Required with RPC_URL in production. Default: pages of this service' },
  NETWORK_FINALITY: { kind: 'text', default: 'finalized', part: 'server', group: 'network', help: 'When a block is final: the tag `finalized`, or a number of blocks' },
  NETWORK_GAS: { kind: 'choice', choices: ['self', 'topup', 'sponsor'], default: 'self', part: 'server', group: 'gas', help: 'Payer of gas on the network behind RPC_URL or the embedded one: `self` (users), `topup` or `sponsor` (sponsors): docs/operate/gas/overview.md' },
  NETWORK_GAS_SPACE: { kind: 'text', part: 'server', group: 'gas', help: 'With NETWORK_GAS=sponsor: the space address that `network deploy-gas` prints' },
  NETWORK_DELEGATE: { kind: 'choice', choices: DELEGATES, default: 'chatelaine', part: 'server', group: 'gas', help: 'With NETWORK_GAS=sponsor: the code that accounts delegate to. `chatelaine` is not audited; `calibur` is, and needs SIGNER_CALIBUR: docs/operate/gas/calibur.md' },
  NETWORK_TOPUP_CONTRACTS: { kind: 'text', part: 'server', group: 'gas', help: 'With NETWORK_GAS=sponsor: contracts, separated by commas or spaces, that accounts call themselves after a top-up: docs/operate/gas/sponsored.md#contracts-that-check-the-origin' },
  NETWORK_SPONSOR_PER_DAY_WEI: { kind: 'wei', unit: 'wei', part: 'server', group: 'gas', help: 'Maximum that all sponsors of this network spend in a rolling day, including fees. Default: no limit beyond the application budgets' },
  NETWORK_SPONSOR_LOW_WEI: { kind: 'wei', unit: 'wei', part: 'server', group: 'gas', help: 'Balance below which a sponsor of this network is low. Default: the current cost of a hundred top-ups' },
  NETWORK_PAGES_PER_USER_WEI: { kind: 'wei', unit: 'wei', part: 'server', group: 'gas', help: 'Maximum that sponsors of this network spend in a rolling day on transfers of one user from the account pages. Default: nothing. Needs NETWORK_PAGES_PER_DAY_WEI' },
  NETWORK_PAGES_PER_DAY_WEI: { kind: 'wei', unit: 'wei', part: 'server', group: 'gas', help: 'Maximum that sponsors of this network spend in a rolling day on transfers of all users from the account pages. Default: nothing' },
  NATIVE_DECIMALS: { kind: 'text', part: 'server', group: 'network', help: 'Networks whose native currency does not have 18 decimals: CHAIN_ID:DECIMALS, separated by commas or spaces, 0 to 36 decimals each' },
  TIP_CAP_GWEI: { kind: 'integer', unit: 'gwei', min: 1, default: 100, part: 'server', group: 'gas', help: 'Maximum tip (maxPriorityFeePerGas) of a new transaction. Fee bumps raise it by an eighth each, up to FEE_CAP_GWEI' },
  FEE_CAP_GWEI: { kind: 'integer', unit: 'gwei', min: 1, default: 1000, part: 'server', group: 'gas', help: 'Maximum fee per gas that is ever signed, unless a network has its own cap (`chatelaine network add`)' },
  LANE_BUMP_AFTER_SECONDS: { kind: 'integer', unit: 'seconds', min: 1, default: 20, part: 'server', group: 'gas', help: 'Time that a transaction waits before a fee bump' },
  FOLLOW_INTERVAL_MS: { kind: 'integer', unit: 'milliseconds', min: 20, max: 3000, default: 250, part: 'server', group: 'network', help: 'Interval at which the follower polls for a new block when one is expected. Its lease on a network lasts 4 seconds' },
  EVENTS_DAYS: { kind: 'integer', unit: 'days', min: 1, max: 366, default: 30, part: 'server', group: 'history', help: 'Days for which events are stored. An application that has read none for longer gets `cursor_expired`: docs/build/events.md' },
  WEBHOOK_PRIVATE_HOSTS: { kind: 'text', part: 'server', group: 'server', help: 'Hosts outside the public internet that webhooks may be sent to, also by http: names or IP addresses, separated by commas or spaces. Development: localhost and 127.0.0.1' },
  BACKFILL: { kind: 'choice', choices: ['on', 'off'], default: 'on', part: 'server', group: 'history', help: 'Index past transfers of older accounts in the background. `off`: only by `chatelaine backfill`' },
  BACKFILL_FROM_BLOCK: { kind: 'integer', unit: 'block', min: 0, default: 0, part: 'server', group: 'history', help: 'First block of the backfill, on networks without their own (`chatelaine network set --backfill-from`)' },
  BACKFILL_CALLS_PER_SECOND: { kind: 'integer', unit: 'calls per second', min: 1, max: 1000, default: 5, part: 'server', group: 'history', help: 'Maximum backfill calls to the nodes of a network. It also pauses as long as a node took to respond, and while blocks or requests wait' },
  NATIVE_HISTORY: { kind: 'choice', choices: ['traces', 'values', 'off'], default: 'traces', part: 'server', group: 'history', help: 'Native currency in the history: `traces` with internal transfers (one more call per block), `values` without them, `off` none: docs/operate/networks.md#native-currency-in-the-history' },
  BLOCK_VERIFICATION: { kind: 'choice', choices: ['bloom', 'hash', 'count'], default: 'bloom', part: 'server', group: 'network', help: 'How blocks are checked: `bloom`, `hash` or `count`, on networks without their own mode (`chatelaine network add`): docs/operate/networks.md#block-verification' },
  SIGNER_SOCKET: { kind: 'path', part: 'both', group: 'first', productionRequired: true, help: 'Unix socket of the signer' },
  SIGNER_KEY: { kind: 'text', part: 'server', group: 'signer', help: 'Verifier key of the signer’s log, as `chatelaine signer verify` prints it. With it, only this signer and the addresses that it attests are accepted. Without it, the first signer is trusted' },
  SIGNER_SOCKET_MODE: { kind: 'choice', choices: ['600', '660'], default: '600', part: 'signer', group: 'signer', help: 'Permissions of SIGNER_SOCKET, octal. 600: the signer’s user only. 660: also its group, for a server with another user' },
  SIGNER_AUTH_SOCKET: { kind: 'path', part: 'both', group: 'signer', help: 'Second signer socket, for `chatelaine auth run` only. If set, only this socket creates accounts and accepts lists of revoked tokens' },
  SIGNER_ADMIN_SOCKET: { kind: 'path', part: 'signer', group: 'signer', help: 'Unix socket for `chatelaine signer` commands that ask the running signer, for its own user only. Default: SIGNER_DIR/admin.sock' },
  SIGNER_DIR: { kind: 'path', part: 'signer', group: 'first', productionRequired: true, help: 'Folder of the signer’s store: wrapped keys and ledger' },
  SIGNER_KEK: { kind: 'text', part: 'signer', group: 'master key', help: 'Location of the master key (KEK), if SIGNER_KEK_FILE is not set: `file:`, `pkcs11:`, `vault:`, `vault+unix:`, `aws-kms:` or `gcp-kms:`: docs/operate/signer-keys.md#master-key-location' },
  SIGNER_KEK_FILE: { kind: 'path', part: 'signer', group: 'first', help: 'File with the master key (KEK), 32 bytes. Store it separately from SIGNER_DIR and all backups. This or SIGNER_KEK is required' },
  SIGNER_KEK_PIN_FILE: { kind: 'path', part: 'signer', group: 'master key', help: 'File with the PIN of the HSM in SIGNER_KEK, readable by the signer’s user only' },
  SIGNER_KEK_TOKEN_FILE: { kind: 'path', part: 'signer', group: 'master key', help: 'File with a Vault token or a Google Cloud access token, readable by the signer’s user only. Read at each use, so another program can renew it' },
  SIGNER_KEK_CREDENTIALS_FILE: { kind: 'path', part: 'signer', group: 'master key', help: 'File with credentials for SIGNER_KEK, readable by the signer’s user only. AWS KMS: a shared credentials file. Google Cloud KMS: a service account key (JSON)' },
  SIGNER_KEK_CA_FILE: { kind: 'path', part: 'signer', group: 'master key', help: 'Certificates (PEM) for the key service in SIGNER_KEK, instead of the system’s' },
  SIGNER_KEK_NEXT_FILE: { kind: 'path', part: 'signer', group: 'master key', help: 'File with the next master key, for `chatelaine signer rotate-kek`; created if it is missing. The signer starts with the key that opens its store' },
  SIGNER_KEK_NEXT: { kind: 'text', part: 'signer', group: 'master key', help: 'Location of the next master key, as in SIGNER_KEK. The key must exist' },
  SIGNER_KEK_NEXT_PIN_FILE: { kind: 'path', part: 'signer', group: 'master key', help: 'File with the PIN of the HSM in SIGNER_KEK_NEXT' },
  SIGNER_KEK_NEXT_TOKEN_FILE: { kind: 'path', part: 'signer', group: 'master key', help: 'As SIGNER_KEK_TOKEN_FILE, for SIGNER_KEK_NEXT' },
  SIGNER_KEK_NEXT_CREDENTIALS_FILE: { kind: 'path', part: 'signer', group: 'master key', help: 'As SIGNER_KEK_CREDENTIALS_FILE, for SIGNER_KEK_NEXT' },
  SIGNER_KEK_NEXT_CA_FILE: { kind: 'path', part: 'signer', group: 'master key', help: 'As SIGNER_KEK_CA_FILE, for SIGNER_KEK_NEXT' },
  SIGNER_JWKS_FILE: { kind: 'path', part: 'signer', group: 'first', help: 'Public keys that the server publishes (its AUTH_JWKS_FILE). `chatelaine signer trust-key` accepts them by fingerprint; development trusts all of them' },
  SIGNER_ISSUER: { kind: 'url', part: 'signer', group: 'first', productionRequired: true, help: 'Issuer that access tokens must have: PUBLIC_ORIGIN/oauth; with SIGNER_AUTH_SOCKET AUTH_ORIGIN/oauth' },
  SIGNER_AUDIENCE: { kind: 'url', part: 'signer', group: 'first', productionRequired: true, help: 'Audience that access tokens must have: PUBLIC_ORIGIN/v1' },
  SIGNER_REVOCATIONS_SECONDS: { kind: 'integer', unit: 'seconds', min: 0, max: 300, default: 60, part: 'signer', group: 'signer', help: 'Maximum age of the list of revoked tokens; with an older one the signer rejects every token. 0 ignores lists and is rejected in production' },
  SIGNER_MAX_FEE_WEI: { kind: 'wei', unit: 'wei', part: 'signer', group: 'signing limits', help: 'Maximum total fee (gas × fee per gas) of one transaction. Default: 10^18' },
  SIGNER_MAX_FILL_FEE_WEI: { kind: 'wei', unit: 'wei', part: 'signer', group: 'signing limits', help: 'Maximum total fee of a gap-filling transaction. Set at least 21,000 × the highest FEE_CAP_GWEI. Default: 2.1 × 10^16 (21,000 × 1,000 gwei)' },
  SIGNER_MAX_FILLS: { kind: 'integer', unit: 'transactions', min: 1, max: 64, default: 16, part: 'signer', group: 'signing limits', help: 'Maximum consecutive gap-filling transactions of an account. Set at least MAX_PENDING_WRITES of the server' },
  SIGNER_CHAINS: { kind: 'chains', part: 'signer', group: 'first', productionRequired: true, help: 'Chain ids that the signer signs for, separated by commas or spaces. Default in development: all' },
  SIGNER_MAX_TOKEN_SECONDS: { kind: 'integer', unit: 'seconds', min: 60, max: 86400, default: 86400, part: 'signer', group: 'signer', help: 'Maximum lifetime of an accepted access token (`iat` to `exp`). Set at least ACCESS_TOKEN_SECONDS of the server' },
  SIGNER_MAX_RAISE: { kind: 'integer', min: 2, max: 1000, default: 8, part: 'signer', group: 'signing limits', help: 'Maximum cost of a fee bump or cancellation without the user’s token, as a multiple of the agreed fee. SIGNER_MAX_FILL_FEE_WEI is always allowed' },
  SIGNER_MAX_UNATTENDED_FEE_WEI: { kind: 'wei', unit: 'wei', part: 'signer', group: 'signing limits', help: 'Maximum that all signatures without a user’s token add to the fees of one network within an hour. Default: 10^20' },
  SIGNER_TOPUP_PER_USER_WEI: { kind: 'wei', unit: 'wei', part: 'signer', group: 'signing limits', help: 'Maximum that sponsors give one user on one network within 24 hours, including fees: docs/operate/signer-rules.md#top-ups. Default: 0 (no top-ups); in development 10^18' },
  SIGNER_TOPUP_PER_SPONSOR_WEI: { kind: 'wei', unit: 'wei', part: 'signer', group: 'signing limits', help: 'Maximum that one sponsor gives all users on one network within 24 hours, including fees. Default: 0 (no top-ups); in development 10^21' },
  SIGNER_GAS_PER_USER_WEI: { kind: 'wei', unit: 'wei', part: 'signer', group: 'signing limits', help: 'Maximum gas of one user’s sponsored operations on one network within 24 hours, at the maximum fee: docs/operate/signer-rules.md#sponsored-operations. Default: 0 (none); in development 10^18' },
  SIGNER_GAS_PER_SPONSOR_WEI: { kind: 'wei', unit: 'wei', part: 'signer', group: 'signing limits', help: 'Maximum cost of one sponsor’s transactions with operations on one network within 24 hours. Default: 0 (none); in development 10^21' },
  SIGNER_CALIBUR: { kind: 'choice', choices: ['off', 'on'], default: 'off', part: 'signer', group: 'signer', help: '`on` lets accounts delegate to Calibur (EIP-7702): docs/operate/gas/calibur.md' },
  SIGNER_POLICY_FILE: { kind: 'path', part: 'signer', group: 'signer', help: 'Policy that limits signatures, with the signatures of the policy keys; read every second: docs/operate/policy.md. Without it only the built-in rules apply' },
  SIGNER_EXPORT: { kind: 'choice', choices: ['off', 'on'], default: 'off', part: 'signer', group: 'signer', help: '`on` lets users export their key. The server has its own switch, KEY_EXPORT: docs/operate/key-export.md' },
  SIGNER_EXPORT_DELAY_SECONDS: { kind: 'integer', unit: 'seconds', min: 0, max: 2592000, default: 86400, part: 'signer', group: 'signer', help: 'Time from the request for a key to its release; at least 43200 in production' },
  SIGNER_EXPORT_ALL: { kind: 'choice', choices: ['off', 'on'], default: 'off', part: 'signer', group: 'signer', help: '`on` lets the signer’s user export all keys, to move the accounts to another installation: docs/operate/runbooks/move-installation.md' },
  AUTH_KEYS_FILE: { kind: 'path', part: 'server', group: 'first', productionRequired: true, help: 'Private keys of the authorization server (JWK set). Development creates it at the first start' },
  AUTH_JWKS_FILE: { kind: 'path', part: 'server', group: 'auth', help: 'File to which the public keys are written, for the signer. Default: beside AUTH_KEYS_FILE' },
  AUTH_SOCKET: { kind: 'path', part: 'server', group: 'auth', help: 'Unix socket between the API and `chatelaine auth run`. It splits them into two programs, in production: docs/operate/split-deployment.md' },
  AUTH_ORIGIN: { kind: 'url', part: 'server', group: 'auth', help: 'With AUTH_SOCKET: https origin of the authorization server, on another host than PUBLIC_ORIGIN' },
  API_URL: { kind: 'url', part: 'server', group: 'auth', default: 'http://127.0.0.1:4000', help: 'With `chatelaine auth run`: URL of the API, for the account page' },
  PROVIDERS_FILE: { kind: 'path', part: 'server', group: 'first', productionRequired: true, help: 'JSON list of the identity providers that users sign in with: docs/operate/identity-providers.md' },
  KNOWN_TOKENS_FILE: { kind: 'path', part: 'server', group: 'history', help: 'JSON object of the tokens that your users use, by `CHAIN_ID:ADDRESS`, with their pictures: docs/build/history-spam.md#known-tokens; read at startup' },
  BRAND_NAME: { kind: 'text', default: 'Chatelaine', part: 'server', group: 'pages', help: 'Name of the installation on every page, 1 to 40 characters' },
  BRAND_LOGO_FILE: { kind: 'path', part: 'server', group: 'pages', help: 'Logo beside the name: SVG, PNG, JPEG or WebP, at most 256 KiB; read at startup' },
  BRAND_COLOR: { kind: 'text', part: 'server', group: 'pages', help: 'Colour of buttons and links, #rrggbb, dark enough for light pages (contrast 4.5, WCAG 2.2); dark pages use a lighter shade' },
  SUPPORT_URL: { kind: 'url', part: 'server', group: 'pages', help: 'https URL of the support page, linked from every page' },
  PRIVACY_URL: { kind: 'url', part: 'server', group: 'pages', help: 'https URL of the privacy policy, linked from every page' },
  TERMS_URL: { kind: 'url', part: 'server', group: 'pages', help: 'https URL of the terms of use, linked from every page' },
  OPERATOR_TOKEN_FILE: { kind: 'path', part: 'server', group: 'first', help: 'Operator API tokens, one per line: SHA-256 hash (hexadecimal), name, role. Without it there is no operator API; development has a token in DATA_DIR/operator-token' },
  KEY_EXPORT: { kind: 'choice', choices: ['off', 'on'], default: 'off', part: 'server', group: 'auth', help: '`on` lets users request their key on the account page. The signer needs SIGNER_EXPORT too: docs/operate/key-export.md' },
  CODE_SECONDS: { kind: 'integer', unit: 'seconds', min: 10, max: 600, default: 60, part: 'server', group: 'auth', help: 'Lifetime of an authorization code' },
  ACCESS_TOKEN_SECONDS: { kind: 'integer', unit: 'seconds', min: 5, max: 86400, default: 3600, part: 'server', group: 'auth', help: 'Lifetime of an access token' },
  ID_TOKEN_SECONDS: { kind: 'integer', unit: 'seconds', min: 5, default: 3600, part: 'server', group: 'auth', help: 'Lifetime of an id token' },
  REFRESH_TOKEN_SECONDS: { kind: 'integer', unit: 'seconds', min: 60, max: 315360000, default: 2592000, part: 'server', group: 'auth', help: 'Lifetime of a refresh token; each use returns a new one' },
  REFRESH_FAMILY_SECONDS: { kind: 'integer', unit: 'seconds', min: 60, max: 315360000, default: 7776000, part: 'server', group: 'auth', help: 'Time after a sign-in during which refresh tokens are renewed; afterwards the user signs in again' },
  REFRESH_GRACE_SECONDS: { kind: 'integer', unit: 'seconds', min: 0, max: 60, default: 20, part: 'server', group: 'auth', help: 'Time during which a used refresh token still returns its successor' },
  SESSION_SECONDS: { kind: 'integer', unit: 'seconds', min: 60, max: 315360000, default: 1209600, part: 'server', group: 'auth', help: 'Lifetime of a browser session' },
  RATE_LIMITS: { kind: 'choice', choices: ['on', 'off'], default: 'on', part: 'server', group: 'limits', help: '`off` for load tests; rejected in production' },
  READS_PER_SECOND: { kind: 'integer', unit: 'requests per second', min: 1, default: 20, part: 'server', group: 'limits', help: 'Reads of a user at an application, and of an application by itself' },
  READS_BURST: { kind: 'integer', unit: 'requests', min: 1, default: 60, part: 'server', group: 'limits', help: 'Burst of these reads' },
  WRITES_PER_SECOND: { kind: 'integer', unit: 'requests per second', min: 1, default: 5, part: 'server', group: 'limits', help: 'Writes of a user at an application' },
  WRITES_BURST: { kind: 'integer', unit: 'requests', min: 1, default: 20, part: 'server', group: 'limits', help: 'Burst of these writes, including dry runs and rejected ones' },
  APPLICATION_PER_SECOND: { kind: 'integer', unit: 'requests per second', min: 1, default: 100, part: 'server', group: 'limits', help: 'Requests per application' },
  SIGN_IN_PER_MINUTE: { kind: 'integer', unit: 'requests per minute', min: 1, default: 10, part: 'server', group: 'limits', help: 'Requests per IP address (IPv6: /64) to each step of a sign-in; no limit in development' },
  MAX_IN_FLIGHT: { kind: 'integer', unit: 'requests', min: 16, max: 65536, default: 512, part: 'server', group: 'limits', help: 'Concurrent requests per process: half reads, a quarter writes, a quarter sign-in and the rest: docs/operate/monitoring.md#overload. Up to 1,000 requests that wait for a block are not counted' },
  MAX_CONNECTIONS: { kind: 'integer', unit: 'connections', min: 16, max: 1000000, default: 16384, part: 'server', group: 'limits', help: 'Maximum open connections per process; further ones are closed without a response (`connections_full`). Idle and slow connections are closed after 5 to 120 s' },
  MAX_PENDING_WRITES: { kind: 'integer', unit: 'transactions', min: 1, default: 16, part: 'server', group: 'limits', help: 'Maximum unconfirmed writes per account that are broadcast at a time. geth guarantees 16, reth allows at most 16' },
  MAX_QUEUED_WRITES: { kind: 'integer', unit: 'transactions', min: 0, max: 1000, default: 64, part: 'server', group: 'limits', help: 'Maximum accepted writes per account that wait behind those. 0: the next write is rejected' },
  TRUST_PROXY: { kind: 'proxies', part: 'server', group: 'first', productionRequired: true, help: 'Number of reverse proxies in front of the server, or their addresses, separated by commas or spaces. They set X-Forwarded-For; entries that a client wrote are ignored. 0: the header is not read' },
  LOG_LEVEL: { kind: 'choice', choices: ['debug', 'info', 'warn', 'error', 'silent'], default: 'warn', part: 'both', group: 'server', help: 'Lowest log level that is written to standard error' },
  REQUEST_LOG: { kind: 'choice', choices: ['auto', 'on', 'off'], default: 'auto', part: 'server', group: 'server', help: 'Log line per request. `auto`: in development. In production `on` writes JSON and requires LOG_LEVEL info or debug' },
  DRAIN_SECONDS: { kind: 'integer', unit: 'seconds', min: 0, max: 60, default: 0, part: 'server', group: 'server', help: 'Time for which /readyz reports not ready before the server stops accepting, so that a load balancer notices' },
} as const satisfies Record<string, Setting>

export type ConfigKey = keyof typeof keys
/** An IP address, or `localhost`, and a port to listen on. */
export type Listen = { host: string; port: number }
type ValueOf<K extends Setting> = K['kind'] extends 'integer' | 'decimal'
  ? number
  : K['kind'] extends 'wei'
    ? bigint
    : K['kind'] extends 'urls'
      ? readonly string[]
      : K['kind'] extends 'proxies'
        ? number | readonly string[]
        : K['kind'] extends 'listen'
          ? Listen
          : K['kind'] extends 'chains'
            ? readonly number[]
            : K extends { choices: readonly (infer C)[] }
              ? C
              : string
export type Config = {
  [K in ConfigKey]: (typeof keys)[K] extends { default: string | number }
    ? ValueOf<(typeof keys)[K]>
    : ValueOf<(typeof keys)[K]> | undefined
}

/** Every setting with its kind, unit, default and help, for the generated reference. */
export const configKeys: Readonly<Record<ConfigKey, Setting>> = keys

/** All problems of the settings, one line each. Values are never repeated, because they may be secrets. */
export class ConfigError extends Error {
  readonly problems: string[]
  constructor(problems: string[]) {
    super(
      `The settings cannot be used:\n${problems.map((line) => `  ${line}`).join('\n')}\nAll settings: docs/reference/configuration.md. A production installation step by step: docs/operate/deploy.md.`,
    )
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/**
 * Reads and checks the settings of one program.
 * @throws ConfigError naming every problem
 */
export function readConfig(env: Environment, part: Part): Config {
  const { config, problems } = readEach(env, part)
  // The signer runs in production mode unless NODE_ENV says otherwise.
  if (part === 'signer' || env.NODE_ENV === 'production') problems.push(...misspelt(env, Object.keys(keys)))
  if (part !== 'signer') {
    problems.push(...shapesOf(config), ...separateOf(config))
    problems.push(...modeOf(config, problems.length > 0 && part === 'server'))
  }
  if (part === 'auth' && env.NODE_ENV !== 'production')
    problems.push('NODE_ENV must be production: in development, `npm start` includes the authorization server')
  if (problems.length > 0) throw new ConfigError(problems)
  return config
}

/**
 * Reads only the named settings, for commands that run where the server's settings are incomplete.
 * @throws ConfigError naming every problem of these settings
 */
export function readSome<K extends ConfigKey>(env: Environment, names: readonly K[]): Pick<Config, K> {
  const chosen = Object.fromEntries(names.map((name) => [name, env[name]]))
  const { config, problems } = readEach(chosen, 'server')
  problems.push(...shapesOf(config))
  if (problems.length > 0) throw new ConfigError(problems)
  return Object.fromEntries(names.map((name) => [name, config[name]])) as Pick<Config, K>
}

/** `auth`: the separate authorization server, which reads settings of the server. */
type Part = 'server' | 'signer' | 'auth'
/** How the required settings of each program change if the authorization server is a separate program. */
const APART: Record<'server' | 'auth', { more: ConfigKey[]; less: ConfigKey[] }> = {
  server: { more: ['AUTH_ORIGIN', 'AUTH_JWKS_FILE'], less: ['AUTH_KEYS_FILE', 'PROVIDERS_FILE'] },
  auth: { more: ['AUTH_ORIGIN', 'AUTH_SOCKET', 'SIGNER_AUTH_SOCKET'], less: ['SIGNER_SOCKET'] },
}

function readEach(env: Environment, part: Part): { config: Config; problems: string[] } {
  const problems: string[] = []
  const config: Record<string, unknown> = {}
  const production = env.NODE_ENV === 'production'
  const isApart = part === 'auth' || (part === 'server' && (env.AUTH_SOCKET ?? '') !== '')
  const { more, less } = isApart ? APART[part] : { more: [], less: [] }
  for (const [name, key] of Object.entries(keys) as [ConfigKey, Setting][]) {
    const text = env[name] === '' ? undefined : env[name]
    const mine = key.part === 'both' || (key.part === 'signer') === (part === 'signer')
    const isRequired = (key.productionRequired && !less.includes(name)) || more.includes(name)
    if (text === undefined) {
      if (production && mine && isRequired) problems.push(`${name} is missing: ${briefly(key)}`)
      config[name] = key.kind === 'path' && typeof key.default === 'string' ? resolve(key.default) : key.default
      continue
    }
    const value = readValue(key, text)
    if (value instanceof Error) problems.push(`${name} ${value.message}: ${briefly(key)}`)
    else config[name] = value
  }
  return { config: config as Config, problems }
}

/** Describes a setting in one line: the first clause of its help, its unit and its default. */
function briefly({ help, unit, default: standard }: Setting): string {
  const [clause = ''] = help.split(/[;:.] /, 1)
  const more = [unit, standard === undefined ? undefined : `default ${standard}`].filter((one) => one !== undefined)
  return more.length === 0 ? clause : `${clause} (${more.join(', ')})`
}

function readValue(key: Setting, text: string): string | number | bigint | string[] | number[] | Listen | Error {
  switch (key.kind) {
    case 'integer':
    case 'decimal': {
      const value = Number(text)
      if (key.kind === 'integer' && wholeIn(text) === null) return new Error('must be a whole number')
      if (!/^\d{1,15}(\.\d{1,3})?$/.test(text)) return new Error('must be a decimal number')
      if (value < (key.min ?? 0)) return new Error(`must be at least ${key.min ?? 0}`)
      if (value > (key.max ?? Number.MAX_SAFE_INTEGER)) return new Error(`must be at most ${key.max}`)
      return value
    }
    case 'wei':
      return amountIn(text) ?? new Error('must be decimal digits (wei) of a number below 2^256')
    case 'url':
      return /^https?:\/\//.test(text) && URL.canParse(text)
        ? text.replace(/\/+$/, '')
        : new Error('must be an http or https URL')
    case 'urls': {
      const urls = text.split(/[\s,]+/).filter((url) => url !== '')
      const isFine =
        urls.every((url) => /^(http|ws)s?:\/\//.test(url) && URL.canParse(url)) &&
        urls.some((url) => url.startsWith('http'))
      // HTTP URLs first: code that needs a single URL takes the first one.
      return isFine
        ? [...new Set(urls)].toSorted((a, b) => Number(a.startsWith('ws')) - Number(b.startsWith('ws')))
        : new Error('must be an http or https URL, or several separated by commas or spaces; ws and wss may be added')
    }
    case 'proxies':
      return readProxies(text)
    case 'listen':
      return readListen(text)
    case 'chains': {
      const ids = text.split(/[\s,]+/).filter((id) => id !== '')
      return ids.length > 0 && ids.every((id) => /^[1-9]\d{0,15}$/.test(id) && Number.isSafeInteger(Number(id)))
        ? [...new Set(ids.map(Number))]
        : new Error('must be chain ids separated by commas or spaces, such as 1, 8453')
    }
    case 'choice':
      return key.choices!.includes(text) ? text : new Error(`must be one of ${key.choices!.join(', ')}`)
    case 'path':
      return resolve(text)
    case 'text':
      return text
  }
}

/** Upper bound of plausible numbers of proxies; a larger number is a typing error. */
const MAX_PROXIES = 16

function readProxies(text: string): number | string[] | Error {
  if (/^\d{1,2}$/.test(text) && Number(text) <= MAX_PROXIES) return Number(text)
  const addresses = text.split(/[\s,]+/).filter((address) => address !== '')
  return addresses.length > 0 && addresses.every(isAddressOrNetwork)
    ? addresses
    : new Error(
        `must be the number of proxies in front of the server (1 for one, at most ${MAX_PROXIES}) or their addresses (10.0.0.0/8, 127.0.0.1)`,
      )
}

/** `/0` matches every address, so it is rejected. */
function isAddressOrNetwork(text: string): boolean {
  const [, address = '', bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  const family = isIP(address)
  return family !== 0 && (bits === undefined || (Number(bits) > 0 && Number(bits) <= (family === 4 ? 32 : 128)))
}

function readListen(text: string): Listen | Error {
  const [, bracketed, plain, port = ''] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? []
  const isFine =
    (bracketed === undefined ? isIP(plain ?? '') === 4 || plain === 'localhost' : isIP(bracketed) === 6) &&
    Number(port) <= 65_535
  return isFine
    ? { host: (bracketed ?? plain)!, port: Number(port) }
    : new Error('must be an address and a port, such as 127.0.0.1:9464 or [::1]:9464')
}

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost'])

/** Returns whether a host name, from a URL or a Host header, names this machine. */
export const isLoopback = (hostname: string): boolean =>
  LOOPBACK.has(hostname.replace(/^\[(.*)\]$/, '$1')) || hostname.endsWith('.localhost')

/** Returns the settings that the mode, production or development, does not allow. */
function modeOf(config: Config, hasMissing: boolean): string[] {
  if (config.NODE_ENV !== 'production') return developmentForOthers(config)
  const problems: string[] = []
  if (config.DEVELOPMENT_OPEN_TO !== 'this-machine')
    problems.push('DEVELOPMENT_OPEN_TO cannot be set in production: remove it')
  if (config.REQUEST_LOG === 'on' && !['debug', 'info'].includes(config.LOG_LEVEL))
    problems.push('REQUEST_LOG cannot be on with this LOG_LEVEL: its lines are info')
  if (config.RATE_LIMITS === 'off') problems.push('RATE_LIMITS cannot be off in production')
  if (config.PUBLIC_ORIGIN !== undefined && !config.PUBLIC_ORIGIN.startsWith('https:'))
    problems.push('PUBLIC_ORIGIN must be https in production')
  // Networks may also be stored in DATA_DIR, which only the start can read. So report this only together with other
  // problems.
  if (config.RPC_URL === undefined && config.NETWORKS_FILE === undefined && hasMissing)
    problems.push('RPC_URL or NETWORKS_FILE is missing: set one of them, or add a network with `chatelaine network add`') // prettier-ignore
  if (config.RPC_URL !== undefined && config.NETWORK_EXPLORER === undefined)
    problems.push('NETWORK_EXPLORER is missing: the network of RPC_URL needs an explorer')
  if (config.AUTH_ORIGIN !== undefined && !config.AUTH_ORIGIN.startsWith('https:'))
    problems.push('AUTH_ORIGIN must be https in production')
  return problems
}

/** unix(7): `sun_path` has 108 bytes, including the terminating zero. */
const MAX_SOCKET_BYTES = 107

const hostOf = (url: string | undefined): string | null =>
  url !== undefined && URL.canParse(url) ? new URL(url).hostname : null

/** Checks values beyond their kind, and combinations of values. */
function shapesOf(config: Config): string[] {
  const { PUBLIC_ORIGIN, NETWORK_NAME, NETWORK_FINALITY } = config
  const problems = brandProblems(config)
  if (PUBLIC_ORIGIN !== undefined && URL.canParse(PUBLIC_ORIGIN) && new URL(PUBLIC_ORIGIN).origin !== PUBLIC_ORIGIN)
    problems.push('PUBLIC_ORIGIN must be an origin without a path, in lower case and without the default port')
  if (!/^[a-z0-9][a-z0-9-]{0,31}$/.test(NETWORK_NAME))
    problems.push('NETWORK_NAME must be lower-case letters, digits and hyphens')
  if (!/^(finalized|\d{1,4})$/.test(NETWORK_FINALITY))
    problems.push('NETWORK_FINALITY must be `finalized` or a number of blocks')
  if (readNativeDecimals(config.NATIVE_DECIMALS) === null)
    problems.push(
      'NATIVE_DECIMALS must be CHAIN_ID:DECIMALS separated by commas or spaces, each network once with 0 to 36 decimals, such as 4242:6',
    )
  const { PORT, HOST, CHAIN_PORT, OPS_LISTEN, SIGNER_SOCKET, SIGNER_KEY, AUTH_ORIGIN } = config
  // `port` is undefined if it could not be read; port 0 means any free port.
  const isPort = (port: number | undefined) => port !== undefined && port !== 0 && port === PORT
  if (isPort(CHAIN_PORT)) problems.push('CHAIN_PORT must be another port than PORT')
  if (isPort(OPS_LISTEN?.port) && [HOST, '0.0.0.0', '::'].includes(OPS_LISTEN!.host))
    problems.push('OPS_LISTEN must have another port than PORT')
  if (AUTH_ORIGIN !== undefined && (!URL.canParse(AUTH_ORIGIN) || new URL(AUTH_ORIGIN).origin !== AUTH_ORIGIN))
    problems.push('AUTH_ORIGIN must be an origin without a path, in lower case and without the default port')
  else if (AUTH_ORIGIN !== undefined && hostOf(AUTH_ORIGIN) === hostOf(PUBLIC_ORIGIN))
    problems.push('AUTH_ORIGIN must be on another host than PUBLIC_ORIGIN, so that cookies and scripts are separate') // prettier-ignore
  if (!/^(chatelaine-signing-log\/[0-9a-f]{16}\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44})?$/.test(SIGNER_KEY ?? '')) problems.push('SIGNER_KEY must be a verifier key, chatelaine-signing-log/… with two + in it') // prettier-ignore
  if (SIGNER_SOCKET !== undefined && Buffer.byteLength(SIGNER_SOCKET) > MAX_SOCKET_BYTES)
    problems.push(`SIGNER_SOCKET is longer than ${MAX_SOCKET_BYTES} bytes, the limit of Unix sockets`)
  return problems
}

/** Checks settings that need each other, or that only production allows. */
function separateOf({ NODE_ENV, AUTH_SOCKET, AUTH_ORIGIN }: Config): string[] {
  if (AUTH_SOCKET === undefined)
    return AUTH_ORIGIN === undefined ? [] : ['AUTH_SOCKET is missing: AUTH_ORIGIN is the origin of a separate program']
  if (NODE_ENV === 'production') return []
  return ['AUTH_SOCKET is for production: development runs everything in one process'] // prettier-ignore
}

/** In development mode anyone may sign in as anyone: returns the settings that would let other machines in. */
function developmentForOthers(config: Config): string[] {
  if (config.DEVELOPMENT_OPEN_TO === 'everyone') return []
  const { HOST, PUBLIC_ORIGIN, TRUST_PROXY, SIGNER_SOCKET } = config
  const origin = PUBLIC_ORIGIN !== undefined && URL.canParse(PUBLIC_ORIGIN) ? new URL(PUBLIC_ORIGIN).hostname : null
  const reaching = [
    [!isLoopback(HOST), 'HOST must be a loopback address'],
    [origin !== null && !isLoopback(origin), 'PUBLIC_ORIGIN must be on this machine (http://localhost:…)'],
    [TRUST_PROXY !== undefined && TRUST_PROXY !== 0, 'TRUST_PROXY cannot be used'],
    [SIGNER_SOCKET !== undefined, 'SIGNER_SOCKET cannot be used'],
  ] as const
  return reaching
    .filter(([isReaching]) => isReaching)
    .map(
      ([, what]) =>
        `${what} in development mode, where anyone may sign in as anyone: set NODE_ENV=production, or DEVELOPMENT_OPEN_TO=everyone if that is intended`,
    )
}
