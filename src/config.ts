import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { brandProblems } from './brand-settings.ts'
import { DELEGATES } from './ids.ts'
import { misspelt } from './misspelt.ts'
import { readNativeDecimals } from './native-decimals.ts'
import { amountIn, wholeIn } from './digits.ts'

/** Every setting of both programs, also in `docs/reference/configuration.md`; without NODE_ENV=production, for development on loopback. */
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
type Setting = {
  kind: SettingKind
  unit?: string
  default?: string | number
  choices?: readonly string[]
  min?: number
  max?: number
  /** the program that reads it */
  part: 'server' | 'signer' | 'both'
  /** start is refused without it when NODE_ENV=production */
  productionRequired?: true
  help: string
}

// One line for each, so that it reads as the table it is.
// prettier-ignore
const keys = {
  NODE_ENV: { kind: 'choice', choices: ['development', 'test', 'production'], default: 'development', part: 'both', help: 'production refuses every development convenience and requires the settings marked so' },
  HOST: { kind: 'text', default: '127.0.0.1', part: 'server', help: 'address to listen on; development mode accepts loopback addresses only, unless DEVELOPMENT_OPEN_TO allows others' },
  PORT: { kind: 'integer', min: 0, max: 65535, default: 4000, part: 'server', help: 'port to listen on; 0 takes any free one' },
  PUBLIC_ORIGIN: { kind: 'url', part: 'server', productionRequired: true, help: 'public origin as clients see it, https in production; default http://localhost:PORT' },
  OPS_LISTEN: { kind: 'listen', part: 'server', help: 'address and port of a separate listener for operators, such as 127.0.0.1:9464: /metrics, and /readyz with every check. Without it production has no metrics; in development they are on the API’s port' },
  DEVELOPMENT_OPEN_TO: { kind: 'choice', choices: ['this-machine', 'everyone'], default: 'this-machine', part: 'server', help: '`everyone`: development mode may listen on other addresses, run behind a proxy and be called by other host names, in a container or for a phone on the desk. Anyone who reaches it can sign in as anyone and move what they hold; refused in production' },
  DATA_DIR: { kind: 'path', default: '.chatelaine', part: 'server', help: 'folder of a development installation: embedded database, chain, signer, keys. Production keeps only networks.json there, unless NETWORKS_FILE names another file' },
  DATABASE_URL: { kind: 'text', part: 'server', productionRequired: true, help: 'PostgreSQL connection string, `postgres://user:password@host:5432/database`; several servers as `host:port` separated by commas, of which the one that accepts writes is used, also after a promotion; `?target_session_attrs=read-write` refuses a single one that accepts none: docs/guides/failover.md. Without it the embedded database' },
  DATABASE_POOLER: { kind: 'choice', choices: ['none', 'transaction'], default: 'none', part: 'server', help: '`transaction` if PgBouncer is in front of PostgreSQL with `pool_mode = transaction`: nothing is set on a connection, so timeouts belong on the role, and DATABASE_PREPARED defaults to `off`: docs/guides/failover.md' },
  DATABASE_PREPARED: { kind: 'choice', choices: ['on', 'off'], part: 'server', help: 'whether writes and sign-ins use prepared statements, which save a quarter of the database’s CPU for a write; default `on`, and `off` with DATABASE_POOLER=transaction, where `on` requires PgBouncer 1.21 or newer with `max_prepared_statements`' },
  DATABASE_POOL: { kind: 'integer', unit: 'connections', min: 1, max: 200, default: 16, part: 'server', help: 'connections to PostgreSQL per process' },
  NETWORKS_FILE: { kind: 'path', part: 'server', help: 'nodes of the networks added with `chatelaine network add`: JSON, a list of URLs by network name, which may contain keys; default DATA_DIR/networks.json' },
  RPC_URL: { kind: 'urls', part: 'server', help: 'EVM node of one more network, which the NETWORK_… settings describe, instead of the embedded chain; or several nodes of the same network, separated by commas or spaces: one that fails, lags or is slow is not used. A ws or wss URL beside them announces new blocks, so that the others are polled only when there is one' },
  CHAIN_PORT: { kind: 'integer', min: 0, max: 65535, part: 'server', help: 'port of the embedded chain; default 8545 if free, else any' },
  CHAIN_BLOCK_SECONDS: { kind: 'decimal', unit: 'seconds', min: 0.05, max: 60, default: 1, part: 'server', help: 'block time of the embedded chain' },
  NETWORK_NAME: { kind: 'text', default: 'devnet', part: 'server', help: 'lower-case name of the network behind RPC_URL, as shown in balances' },
  NETWORK_SYMBOL: { kind: 'text', default: 'ETH', part: 'server', help: 'symbol of the native currency' },
  NETWORK_COIN: { kind: 'text', default: 'Ether', part: 'server', help: 'name of the native currency' },
  NETWORK_CHAIN_ID: { kind: 'integer', min: 1, part: 'server', help: 'chain id that the node must report; default: the first that it reports, kept permanently' },
  NETWORK_EXPLORER: { kind: 'url', part: 'server', help: 'block explorer with /tx/, /address/ and /block/ pages, needed with RPC_URL in production; default: pages of this service' },
  NETWORK_FINALITY: { kind: 'text', default: 'finalized', part: 'server', help: '`finalized` (the node’s tag) or a number of blocks after which a block counts as final' },
  NETWORK_GAS: { kind: 'choice', choices: ['self', 'topup', 'sponsor'], default: 'self', part: 'server', help: 'who pays for gas on the network behind RPC_URL, or the embedded one: `self`, people do; `topup`, a sponsor of the operator first sends them what their write needs; `sponsor`, one sends what they sign, and pays for that: docs/guides/gas.md' },
  NETWORK_GAS_SPACE: { kind: 'text', part: 'server', help: 'where NETWORK_GAS is `sponsor`: the address whose key allows sponsors, as `network deploy-gas` says it' },
  NETWORK_DELEGATE: { kind: 'choice', choices: DELEGATES, default: 'chatelaine', part: 'server', help: 'where NETWORK_GAS is `sponsor`: what code accounts delegate to: our own, which is not audited, or Calibur 1.0.0, which is and costs twice the gas; the signer needs SIGNER_CALIBUR: docs/guides/gas.md#calibur' },
  NETWORK_TOPUP_CONTRACTS: { kind: 'text', part: 'server', help: 'where NETWORK_GAS is `sponsor`: contracts, separated by commas or spaces, to which accounts send their writes themselves, with what a sponsor sends them for the gas: those that look at the origin of a transaction: docs/guides/gas.md' },
  NETWORK_SPONSOR_PER_DAY_WEI: { kind: 'wei', unit: 'wei', part: 'server', help: 'maximum that sponsors of this network may spend in a rolling day for all applications together, value and fee; default: as much as those may: docs/guides/gas.md' },
  NETWORK_SPONSOR_LOW_WEI: { kind: 'wei', unit: 'wei', part: 'server', help: 'balance below which a sponsor of this network counts as low; default: what a hundred top-ups cost at the price of now' },
  NATIVE_DECIMALS: { kind: 'text', part: 'server', help: 'networks whose native currency does not have 18 decimals, as CHAIN_ID:DECIMALS separated by commas or spaces, 0 to 36 decimals each' },
  TIP_CAP_GWEI: { kind: 'integer', unit: 'gwei', min: 1, default: 100, part: 'server', help: 'highest tip (maxPriorityFeePerGas) that a new transaction offers, whatever a node says; a fee that is raised may grow beyond it, an eighth each time, up to FEE_CAP_GWEI' },
  FEE_CAP_GWEI: { kind: 'integer', unit: 'gwei', min: 1, default: 1000, part: 'server', help: 'highest maxFeePerGas (or gasPrice) ever signed, on networks without one of their own (`chatelaine network add`)' },
  LANE_BUMP_AFTER_SECONDS: { kind: 'integer', unit: 'seconds', min: 1, default: 20, part: 'server', help: 'how long an attempt waits before its fee is raised' },
  FOLLOW_INTERVAL_MS: { kind: 'integer', unit: 'milliseconds', min: 20, max: 3000, default: 250, part: 'server', help: 'how often the follower polls the node for a new head when one is expected; its lease on a network lasts 4 seconds, after which a replica can take over' },
  BACKFILL: { kind: 'choice', choices: ['on', 'off'], default: 'on', part: 'server', help: '`on`: accounts that existed before their network was followed here are given their past transfers by themselves, in the background, by one process of an installation at a time. `off`: by `chatelaine backfill` only' },
  BACKFILL_FROM_BLOCK: { kind: 'integer', unit: 'block', min: 0, default: 0, part: 'server', help: 'first block whose transfers BACKFILL looks for, on every network that has none of its own (`chatelaine network set --backfill-from`)' },
  BACKFILL_CALLS_PER_SECOND: { kind: 'integer', unit: 'calls per second', min: 1, max: 1000, default: 5, part: 'server', help: 'calls to the nodes of a network that BACKFILL makes at most; 4 ask for up to 10,000 blocks of 1,000 accounts. It also rests as long as a node took to answer, and while blocks or requests wait' },
  NATIVE_HISTORY: { kind: 'choice', choices: ['traces', 'values', 'off'], default: 'traces', part: 'server', help: 'transfers of native currency in the history, given to who asks for them: `traces`, with internal transfers where the network logs them (EIP-7708) or its nodes have `trace_block` or `debug_traceBlockByHash`, one more call a block, which providers bill for; `values`: without such calls; `off`: none. Both ask for each block once more, whole. Blocks that were stored without are never looked at again' },
  BLOCK_VERIFICATION: { kind: 'choice', choices: ['bloom', 'hash', 'count'], default: 'bloom', part: 'server', help: '`hash` fetches every block with full transactions and recomputes header, transactions and receipts up to the block’s hash: hash, sender, gas, price, outcome and logs of each transaction (Ethereum’s own headers and transaction types 0 to 4; a block with another type is refused); `bloom` checks logs against the block’s Bloom filter, and blocks with transactions of our accounts as `hash` does where they are Ethereum’s; `count` counts receipts only, for networks whose filter is empty or omits logs; on networks without one of their own (`chatelaine network add`)' },
  SIGNER_SOCKET: { kind: 'path', part: 'both', productionRequired: true, help: 'Unix socket of the signer' },
  SIGNER_KEY: { kind: 'text', part: 'server', help: 'verifier key of the signer’s log, `chatelaine-signing-log/…+…+…`, as `chatelaine signer verify` prints it: a signer that does not sign its heads with it is refused, also by a database that has met none yet, and addresses count by it alone; without it the first signer is believed, and while it is away the key that the database has kept' },
  SIGNER_SOCKET_MODE: { kind: 'choice', choices: ['600', '660'], default: '600', part: 'signer', help: 'permissions of SIGNER_SOCKET, octal: 600 for the signer’s own user, 660 for its group too, if the server runs as another user of that group' },
  SIGNER_AUTH_SOCKET: { kind: 'path', part: 'both', help: 'second Unix socket of the signer, for `chatelaine auth run` alone, in a folder that the API’s user cannot enter: where the signer has it, accounts are created and lists of revoked tokens taken there only' },
  SIGNER_ADMIN_SOCKET: { kind: 'path', part: 'signer', help: 'Unix socket for `chatelaine signer freeze`, `unfreeze`, `frozen`, `rotate-kek`, `rotate-dek` and `grant-withdrawal`, accessible to the signer’s own user only; default SIGNER_DIR/admin.sock' },
  SIGNER_DIR: { kind: 'path', part: 'signer', productionRequired: true, help: 'the signer’s own store: wrapped keys and sign ledger' },
  SIGNER_KEK: { kind: 'text', part: 'signer', help: 'where the master key (KEK) is that wraps the data keys, if not in SIGNER_KEK_FILE: `file:/path`, or `pkcs11:token=NAME;object=NAME?module-path=/path` (RFC 7512) for a key in a token, which cannot leave it; `vault:https://HOST/v1/MOUNT/keys/NAME`, `vault+unix:/SOCKET:/v1/MOUNT/keys/NAME`, `aws-kms:ARN`, `gcp-kms:projects/P/locations/L/keyRings/R/cryptoKeys/K` for one in a key service: docs/guides/custody.md' },
  SIGNER_KEK_FILE: { kind: 'path', part: 'signer', help: 'file with the master key (KEK): 32 raw bytes that wrap the data keys; keep it apart from SIGNER_DIR and its backups. This or SIGNER_KEK is required' },
  SIGNER_KEK_PIN_FILE: { kind: 'path', part: 'signer', help: 'file of the signer’s user alone with the PIN of the token that SIGNER_KEK names' },
  SIGNER_KEK_TOKEN_FILE: { kind: 'path', part: 'signer', help: 'file of the signer’s user alone with a token, where SIGNER_KEK names Vault, or an access token for Google Cloud; read at each use, so that something else can renew it' },
  SIGNER_KEK_CREDENTIALS_FILE: { kind: 'path', part: 'signer', help: 'file of the signer’s user alone, where SIGNER_KEK names AWS KMS: a shared credentials file; where it names Google Cloud KMS: the key of a service account (JSON)' },
  SIGNER_KEK_CA_FILE: { kind: 'path', part: 'signer', help: 'certificates (PEM) that are believed of the key service that SIGNER_KEK names, instead of the system’s' },
  SIGNER_KEK_NEXT_FILE: { kind: 'path', part: 'signer', help: 'file with the master key that `chatelaine signer rotate-kek` goes over to, created if it is missing; the signer starts with whichever of the two opens its store' },
  SIGNER_KEK_NEXT: { kind: 'text', part: 'signer', help: 'the same in the form of SIGNER_KEK; a key in a token has to exist' },
  SIGNER_KEK_NEXT_PIN_FILE: { kind: 'path', part: 'signer', help: 'file with the PIN of the token that SIGNER_KEK_NEXT names' },
  SIGNER_KEK_NEXT_TOKEN_FILE: { kind: 'path', part: 'signer', help: 'file of the signer’s user alone with a token, where SIGNER_KEK_NEXT names Vault, or an access token for Google Cloud; read at each use, so that something else can renew it' },
  SIGNER_KEK_NEXT_CREDENTIALS_FILE: { kind: 'path', part: 'signer', help: 'file of the signer’s user alone, where SIGNER_KEK_NEXT names AWS KMS: a shared credentials file; where it names Google Cloud KMS: the key of a service account (JSON)' },
  SIGNER_KEK_NEXT_CA_FILE: { kind: 'path', part: 'signer', help: 'certificates (PEM) that are believed of the key service that SIGNER_KEK_NEXT names, instead of the system’s' },
  SIGNER_JWKS_FILE: { kind: 'path', part: 'signer', help: 'public keys that the authorization server publishes, AUTH_JWKS_FILE of the server: `chatelaine signer trust-key` takes them from there, by fingerprint. Development trusts them as they are' },
  SIGNER_ISSUER: { kind: 'url', part: 'signer', productionRequired: true, help: 'issuer that access tokens must name: PUBLIC_ORIGIN/oauth; with SIGNER_AUTH_SOCKET AUTH_ORIGIN/oauth' },
  SIGNER_AUDIENCE: { kind: 'url', part: 'signer', productionRequired: true, help: 'audience that access tokens must name: PUBLIC_ORIGIN/v1' },
  SIGNER_REVOCATIONS_SECONDS: { kind: 'integer', unit: 'seconds', min: 0, max: 300, default: 60, part: 'signer', help: 'maximum age of the newest list of revoked tokens; beyond it the signer accepts no token. The server sends one every 5 seconds. 0, refused in production: lists are not used' },
  SIGNER_MAX_FEE_WEI: { kind: 'wei', unit: 'wei', part: 'signer', help: 'highest total fee (gas × fee per gas) of one transaction; default 10^18' },
  SIGNER_MAX_FILL_FEE_WEI: { kind: 'wei', unit: 'wei', part: 'signer', help: 'the same for an empty transaction that fills a nonce without a token; at least 21,000 × the highest FEE_CAP_GWEI, or such nonces wait while the network requires more; default 2.1 × 10^16, which is 21,000 × 1,000 gwei' },
  SIGNER_MAX_FILLS: { kind: 'integer', unit: 'transactions', min: 1, max: 64, default: 16, part: 'signer', help: 'consecutive nonces of an account that may be filled without a token; at least MAX_PENDING_WRITES of the server, which may leave that many behind in a crash' },
  SIGNER_CHAINS: { kind: 'chains', part: 'signer', productionRequired: true, help: 'chain ids of the networks that the signer signs for, separated by commas or spaces; whatever a token says, nothing is signed for another. If it is left out in development: every one' },
  SIGNER_MAX_TOKEN_SECONDS: { kind: 'integer', unit: 'seconds', min: 60, max: 86400, default: 86400, part: 'signer', help: 'longest lifetime of an access token that the signer accepts, from its `iat` to its `exp`; at least ACCESS_TOKEN_SECONDS of the server' },
  SIGNER_MAX_RAISE: { kind: 'integer', min: 2, max: 1000, default: 8, part: 'signer', help: 'maximum cost of a raise or a cancel without the user’s token, as a multiple of the fee that the user agreed to for that nonce; up to SIGNER_MAX_FILL_FEE_WEI is always allowed' },
  SIGNER_MAX_UNATTENDED_FEE_WEI: { kind: 'wei', unit: 'wei', part: 'signer', help: 'maximum that all raises, cancels and fills without a user’s token add to the fees of one network within an hour, over all accounts; default 10^20' },
  SIGNER_TOPUP_PER_USER_WEI: { kind: 'wei', unit: 'wei', part: 'signer', help: 'maximum that sponsors may give one person on one network within a rolling day, value and highest fee together (docs/guides/custody.md#top-ups); default 0, which is no top-ups, in development 10^18' },
  SIGNER_TOPUP_PER_SPONSOR_WEI: { kind: 'wei', unit: 'wei', part: 'signer', help: 'the same that one sponsor may give to all people together; default 0, which is no top-ups, in development 10^21' },
  SIGNER_GAS_PER_USER_WEI: { kind: 'wei', unit: 'wei', part: 'signer', help: 'maximum gas that sponsors may pay for operations of one person on one network within a rolling day, at the highest fee and each time that one is packed (docs/guides/custody.md#sponsored-operations); default 0, which is no sponsored operations, in development 10^18' },
  SIGNER_GAS_PER_SPONSOR_WEI: { kind: 'wei', unit: 'wei', part: 'signer', help: 'the same that one sponsor may pay for all people together; default 0, which is no sponsored operations, in development 10^21' },
  SIGNER_CALIBUR: { kind: 'choice', choices: ['off', 'on'], default: 'off', part: 'signer', help: '`on`: accounts may delegate to Calibur (EIP-7702), and the signer signs operations for it: docs/guides/gas.md#calibur' },
  SIGNER_POLICY_FILE: { kind: 'path', part: 'signer', help: 'policy of what is signed: deny, limit, require, allow (docs/guides/policy.md). A JWS with the signatures that `chatelaine signer policy-keys` asks for, in development plain JSON too; read each second. Without it the built-in rules alone decide' },
  SIGNER_EXPORT: { kind: 'choice', choices: ['off', 'on'], default: 'off', part: 'signer', help: '`on`: the signer gives people their keys, sealed to their browser, after the delay below (docs/guides/leaving.md). The server has a switch of its own, KEY_EXPORT' },
  SIGNER_EXPORT_DELAY_SECONDS: { kind: 'integer', unit: 'seconds', min: 0, max: 2592000, default: 86400, part: 'signer', help: 'time from a person’s request for their key to the key, counted by the signer; at least 43200 in production' },
  SIGNER_EXPORT_ALL: { kind: 'choice', choices: ['off', 'on'], default: 'off', part: 'signer', help: '`on`: `chatelaine signer export-all` writes all keys, sealed to a recipient, for moving to another installation (docs/guides/leaving.md); only as the signer’s own user' },
  AUTH_KEYS_FILE: { kind: 'path', part: 'server', productionRequired: true, help: 'private keys of the authorization server as a JWK set; created at the first start in development' },
  AUTH_JWKS_FILE: { kind: 'path', part: 'server', help: 'where the public keys are written for the signer; default beside AUTH_KEYS_FILE' },
  AUTH_SOCKET: { kind: 'path', part: 'server', help: 'Unix socket between the API and `chatelaine auth run`. With it the two are programs of their own, in production: `npm start` is the API alone and holds no key that signs tokens; docs/guides/apart.md' },
  AUTH_ORIGIN: { kind: 'url', part: 'server', help: 'with AUTH_SOCKET: https origin of the authorization server (issuer, pages, provider callbacks, operator API), on another host than PUBLIC_ORIGIN' },
  API_URL: { kind: 'url', part: 'server', default: 'http://127.0.0.1:4000', help: 'with `chatelaine auth run`: where the API listens, for what the account page shows and sends' },
  PROVIDERS_FILE: { kind: 'path', part: 'server', productionRequired: true, help: 'JSON list of the identity providers people may sign in with: docs/guides/providers.md' },
  KNOWN_TOKENS_FILE: { kind: 'path', part: 'server', help: 'JSON object of the tokens that people here use, by `CHAIN_ID:ADDRESS`, each with `symbol` and `name`, as `tokens` of a policy: others that look like one of them are spam in histories (docs/guides/spam.md); read at startup' },
  BRAND_NAME: { kind: 'text', default: 'Chatelaine', part: 'server', help: 'name of the installation, on every page for people, 1 to 40 characters' },
  BRAND_LOGO_FILE: { kind: 'path', part: 'server', help: 'logo beside the name: SVG, PNG, JPEG or WebP, at most 256 KiB; read at startup' },
  BRAND_COLOR: { kind: 'text', part: 'server', help: 'colour of buttons and links as #rrggbb, dark enough for light pages (contrast 4.5, WCAG 2.2); dark pages use a lighter shade' },
  SUPPORT_URL: { kind: 'url', part: 'server', help: 'https URL of the support page; linked from every page' },
  PRIVACY_URL: { kind: 'url', part: 'server', help: 'https URL of the privacy policy; linked from every page' },
  TERMS_URL: { kind: 'url', part: 'server', help: 'https URL of the terms of use; linked from every page' },
  OPERATOR_TOKEN_FILE: { kind: 'path', part: 'server', help: 'tokens of the operator API, one per line: SHA-256 hash in hexadecimal, name, role (operator, viewer); without it there is no operator API, in development there is a token in DATA_DIR/operator-token' },
  KEY_EXPORT: { kind: 'choice', choices: ['off', 'on'], default: 'off', part: 'server', help: '`on`: people can ask for the key of their account on its page (docs/guides/leaving.md); the signer has to allow it too, with SIGNER_EXPORT' },
  CODE_SECONDS: { kind: 'integer', unit: 'seconds', min: 10, max: 600, default: 60, part: 'server', help: 'lifetime of an authorization code' },
  ACCESS_TOKEN_SECONDS: { kind: 'integer', unit: 'seconds', min: 5, max: 86400, default: 3600, part: 'server', help: 'lifetime of an access token' },
  ID_TOKEN_SECONDS: { kind: 'integer', unit: 'seconds', min: 5, default: 3600, part: 'server', help: 'lifetime of an id token' },
  REFRESH_TOKEN_SECONDS: { kind: 'integer', unit: 'seconds', min: 60, max: 315360000, default: 2592000, part: 'server', help: 'lifetime of a refresh token; each use returns a new one' },
  REFRESH_FAMILY_SECONDS: { kind: 'integer', unit: 'seconds', min: 60, max: 315360000, default: 7776000, part: 'server', help: 'how long after a sign-in refresh tokens are renewed; after that the person signs in again' },
  REFRESH_GRACE_SECONDS: { kind: 'integer', unit: 'seconds', min: 0, max: 60, default: 20, part: 'server', help: 'how long a used refresh token still returns its successor' },
  SESSION_SECONDS: { kind: 'integer', unit: 'seconds', min: 60, max: 315360000, default: 1209600, part: 'server', help: 'lifetime of a signed-in browser session' },
  RATE_LIMITS: { kind: 'choice', choices: ['on', 'off'], default: 'on', part: 'server', help: '`off` for load tests; refused in production' },
  READS_PER_SECOND: { kind: 'integer', unit: 'requests per second', min: 1, default: 20, part: 'server', help: 'reads of a person at an application, and of an application by itself' },
  READS_BURST: { kind: 'integer', unit: 'requests', min: 1, default: 60, part: 'server', help: 'the same reads in a burst' },
  WRITES_PER_SECOND: { kind: 'integer', unit: 'requests per second', min: 1, default: 5, part: 'server', help: 'writes of a person at an application' },
  WRITES_BURST: { kind: 'integer', unit: 'requests', min: 1, default: 20, part: 'server', help: 'the same writes in a burst, dry runs and refused ones counted' },
  APPLICATION_PER_SECOND: { kind: 'integer', unit: 'requests per second', min: 1, default: 100, part: 'server', help: 'requests per application' },
  SIGN_IN_PER_MINUTE: { kind: 'integer', unit: 'requests per minute', min: 1, default: 10, part: 'server', help: 'requests per IP address (IPv6: /64) to each step of a sign-in; development mode has no such limit' },
  MAX_IN_FLIGHT: { kind: 'integer', unit: 'requests', min: 16, max: 65536, default: 512, part: 'server', help: 'requests in flight per process: half of them reads, a quarter writes, a quarter sign-in and the rest. An application that holds less than its part finds room up to a quarter above; a thousand that wait for a block are not counted' },
  MAX_CONNECTIONS: { kind: 'integer', unit: 'connections', min: 16, max: 1000000, default: 16384, part: 'server', help: 'maximum number of open connections per process; one more is closed immediately, without a response, and logged (`connections_full`). A connection without a first request is closed after 5 s, an idle one after 72 s, a request that is not whole after 15 s, a client that takes nothing of its answer after 120 s' },
  MAX_PENDING_WRITES: { kind: 'integer', unit: 'transactions', min: 1, default: 16, part: 'server', help: 'unconfirmed writes per account that are broadcast at a time; geth guarantees 16, reth caps at 16' },
  MAX_QUEUED_WRITES: { kind: 'integer', unit: 'transactions', min: 0, max: 1000, default: 64, part: 'server', help: 'accepted writes per account that wait behind those, stored and signed; 0: none, the next write is refused' },
  TRUST_PROXY: { kind: 'proxies', part: 'server', productionRequired: true, help: 'number of reverse proxies in front of the server, each adding to X-Forwarded-For (1 for one, which must be on this machine or in a private network), or their addresses, such as 10.0.0.0/8 or 127.0.0.1, separated by commas or spaces. What a client writes into the header itself is not trusted. 0, and in development leaving it out: the header is not read; behind a proxy all clients would then share its limits' },
  LOG_LEVEL: { kind: 'choice', choices: ['debug', 'info', 'warn', 'error', 'silent'], default: 'warn', part: 'both', help: 'least severe log level that is written to standard error' },
  REQUEST_LOG: { kind: 'choice', choices: ['auto', 'on', 'off'], default: 'auto', part: 'server', help: 'a line on standard error for each request: method, path, status, milliseconds, code of a refusal, request id. `auto`: in development. `on` in production: JSON with the route instead of the path; requires LOG_LEVEL info or debug' },
  DRAIN_SECONDS: { kind: 'integer', unit: 'seconds', min: 0, max: 60, default: 0, part: 'server', help: 'how long /readyz reports not ready before the server stops accepting, for a load balancer to notice' },
} as const satisfies Record<string, Setting>

export type ConfigKey = keyof typeof keys
/** An address of this machine and a port on it. */
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

/** Each key with its kind, unit, default and a line of help, for the generated reference. */
export const configKeys: Readonly<Record<ConfigKey, Setting>> = keys

/** All problems of the settings together, a line each, by key. Values are never repeated: they may be secrets. */
export class ConfigError extends Error {
  readonly problems: string[]
  constructor(problems: string[]) {
    super(
      `The settings cannot be used:\n${problems.map((line) => `  ${line}`).join('\n')}\nAll settings: docs/reference/configuration.md. A production installation step by step: docs/guides/operating.md.`,
    )
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/**
 * Reads one program's settings from an environment: names, then defaults, then checks across keys.
 * @throws ConfigError naming every problem
 */
export function readConfig(env: Environment, part: Part): Config {
  const { config, problems } = readEach(env, part)
  // Without NODE_ENV the signer is in production, too.
  if (part === 'signer' || env.NODE_ENV === 'production') problems.push(...misspelt(env, Object.keys(keys)))
  if (part !== 'signer') {
    problems.push(...shapesOf(config), ...separateOf(config))
    problems.push(...modeOf(config, problems.length > 0 && part === 'server'))
  }
  if (part === 'auth' && env.NODE_ENV !== 'production')
    problems.push('NODE_ENV must be production: in development `npm start` is the authorization server, too')
  if (problems.length > 0) throw new ConfigError(problems)
  return config
}

/**
 * Reads a few settings and looks at no other: for commands, which run where the server's settings are not all there.
 * @throws ConfigError naming every problem of these
 */
export function readSome<K extends ConfigKey>(env: Environment, names: readonly K[]): Pick<Config, K> {
  const chosen = Object.fromEntries(names.map((name) => [name, env[name]]))
  const { config, problems } = readEach(chosen, 'server')
  problems.push(...shapesOf(config))
  if (problems.length > 0) throw new ConfigError(problems)
  return Object.fromEntries(names.map((name) => [name, config[name]])) as Pick<Config, K>
}

/** `auth`: of the settings of the server those of a program of its own. */
type Part = 'server' | 'signer' | 'auth'
/** What each of the two programs needs of the other's, where the authorization server is apart. */
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

/** What a setting is, for a line among others: the first clause of its help, its unit and its default. */
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
      // Those that answer calls first: where one address is wanted it is the first.
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

/** Proxies in a row that anyone has; more is a mistake. */
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

/** `/0` is everyone, which is no proxy. */
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

/** Whether a name in an address or a Host header is this machine's own. */
export const isLoopback = (hostname: string): boolean =>
  LOOPBACK.has(hostname.replace(/^\[(.*)\]$/, '$1')) || hostname.endsWith('.localhost')

/** What production refuses, and what development does. */
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
  // Networks may also be in DATA_DIR, which only the start itself can see: named here beside other reasons, there alone.
  if (config.RPC_URL === undefined && config.NETWORKS_FILE === undefined && hasMissing)
    problems.push('RPC_URL or NETWORKS_FILE is missing: the network to serve, unless `chatelaine network add` has put one into DATA_DIR') // prettier-ignore
  if (config.RPC_URL !== undefined && config.NETWORK_EXPLORER === undefined)
    problems.push('NETWORK_EXPLORER is missing: the network of RPC_URL needs an explorer')
  if (config.AUTH_ORIGIN !== undefined && !config.AUTH_ORIGIN.startsWith('https:'))
    problems.push('AUTH_ORIGIN must be https in production')
  return problems
}

/** unix(7): sun_path holds 108 with the zero at its end. */
const MAX_SOCKET_BYTES = 107

const hostOf = (url: string | undefined): string | null =>
  url !== undefined && URL.canParse(url) ? new URL(url).hostname : null

/** Settings whose value says more than its kind. */
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
  // A PORT that could not be read is nobody's, and 0 is any.
  const isPort = (port: number | undefined) => port !== undefined && port !== 0 && port === PORT
  if (isPort(CHAIN_PORT)) problems.push('CHAIN_PORT must be another port than PORT')
  if (isPort(OPS_LISTEN?.port) && [HOST, '0.0.0.0', '::'].includes(OPS_LISTEN!.host))
    problems.push('OPS_LISTEN must have another port than PORT')
  if (AUTH_ORIGIN !== undefined && (!URL.canParse(AUTH_ORIGIN) || new URL(AUTH_ORIGIN).origin !== AUTH_ORIGIN))
    problems.push('AUTH_ORIGIN must be an origin without a path, in lower case and without the default port')
  else if (AUTH_ORIGIN !== undefined && hostOf(AUTH_ORIGIN) === hostOf(PUBLIC_ORIGIN))
    problems.push('AUTH_ORIGIN must be on another host than PUBLIC_ORIGIN: cookies and scripts of one host reach each other') // prettier-ignore
  if (!/^(chatelaine-signing-log\/[0-9a-f]{16}\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44})?$/.test(SIGNER_KEY ?? '')) problems.push('SIGNER_KEY must be a verifier key, chatelaine-signing-log/… with two + in it') // prettier-ignore
  if (SIGNER_SOCKET !== undefined && Buffer.byteLength(SIGNER_SOCKET) > MAX_SOCKET_BYTES)
    problems.push(`SIGNER_SOCKET is longer than ${MAX_SOCKET_BYTES} bytes, the limit of Unix sockets`)
  return problems
}

/** Settings of two programs that say nothing without each other, or outside of production. */
function separateOf({ NODE_ENV, AUTH_SOCKET, AUTH_ORIGIN }: Config): string[] {
  if (AUTH_SOCKET === undefined)
    return AUTH_ORIGIN === undefined ? [] : ['AUTH_SOCKET is missing: AUTH_ORIGIN is the origin of a separate program']
  if (NODE_ENV === 'production') return []
  return ['AUTH_SOCKET is for production: the embedded database lets one process in, and development has one for everything'] // prettier-ignore
}

/** Anyone may sign in as anyone in development mode: what would let others than this machine do so. */
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
