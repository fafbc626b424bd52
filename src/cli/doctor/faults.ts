import type { Diagnosis } from '../../findings.ts'

/** A fault: severity, and what to do. */
type Fault = readonly [severity: Diagnosis['severity'], action: string]

/** The faults that `chatelaine doctor` finds, by their stable codes. docs/operate/doctor.md lists them. */
export const FAULTS = {
  // Settings and files
  settings_rejected: ['error', 'Correct the setting: docs/reference/configuration.md.'],
  secrets_in_reach: ['error', 'Give each program its own user and settings: docs/operate/signer-setup.md#users-and-files.'], // prettier-ignore
  token_keys_unusable: ['error', 'Create the keys with `chatelaine auth-keys create`, or correct the path and mode of the file.'], // prettier-ignore
  providers_unusable: ['error', 'Correct PROVIDERS_FILE: docs/operate/identity-providers.md.'],
  providers_file_open: ['warning', 'Run chmod 640 or 600 on PROVIDERS_FILE, which holds secrets of providers.'],
  operator_tokens_unusable: ['error', 'Correct OPERATOR_TOKEN_FILE, or create a token with `chatelaine operator-token create`.'], // prettier-ignore
  networks_file_unusable: ['error', 'Correct NETWORKS_FILE, or add the network again with `chatelaine network add`.'],
  networks_file_open: ['warning', 'Run chmod 640 or 600 on NETWORKS_FILE, whose URLs may contain keys.'],
  no_operators_listener: ['warning', 'Set OPS_LISTEN to an address that only operators reach: docs/operate/monitoring.md.'], // prettier-ignore
  // Database
  database_unavailable: ['error', 'Start PostgreSQL, or correct DATABASE_URL.'],
  database_read_only: ['error', 'Connect DATABASE_URL to the primary, and turn off default_transaction_read_only.'],
  database_not_durable: ['error', 'Turn on fsync, full_page_writes and synchronous_commit in PostgreSQL.'],
  database_newer: ['error', 'Install the release that migrated the database, or a later one.'],
  migration_missing: ['warning', 'Start the server, which migrates; in a split deployment run `chatelaine database roles` as the owner.'], // prettier-ignore
  migration_changed: ['error', 'Install the release that applied the migration; never edit a migration.'],
  role_is_superuser: ['warning', 'Connect with a role that owns the database and is no superuser: docs/operate/debian.md#database.'], // prettier-ignore
  role_too_broad: ['error', 'Run `chatelaine database roles` as the owner: docs/operate/split-deployment.md.'],
  role_too_narrow: ['error', 'Run `chatelaine database roles` as the owner: docs/operate/split-deployment.md.'],
  clock_differs: ['error', 'Synchronize the clocks of both machines, for example with chrony.'],
  // Signer
  signer_unavailable: ['error', 'Start the signer, and check SIGNER_SOCKET and the group of its folder: docs/operate/signer-setup.md.'], // prettier-ignore
  signer_socket_open: ['error', 'Set SIGNER_SOCKET_MODE to 600 or 660, and restart the signer.'],
  signer_not_separated: ['warning', 'Run the signer as a user of its own: docs/operate/signer-setup.md#users-and-files.'], // prettier-ignore
  signer_refuses: ['error', 'Follow docs/operate/runbooks/signer-restore.md.'],
  signer_key_differs: ['error', 'Find out which signer responds; compare SIGNER_KEY with `chatelaine signer verify`.'],
  signer_version_differs: ['error', 'Install the same release for both programs, and restart them.'],
  token_key_not_trusted: ['error', 'Run `chatelaine signer trust-key` as the signer’s user: docs/operate/key-rotation.md.'], // prettier-ignore
  token_lifetime_too_long: ['error', 'Lower ACCESS_TOKEN_SECONDS, or raise SIGNER_MAX_TOKEN_SECONDS.'],
  revocations_stale: ['error', 'Check clocks, database and the authorization server: docs/operate/monitoring.md#alerts.'], // prettier-ignore
  master_key_unusable: ['error', 'Make the master key available again before the signer restarts: docs/operate/signer-keys.md.'], // prettier-ignore
  policy_not_in_force: ['warning', 'Correct SIGNER_POLICY_FILE: docs/operate/policy.md#put-a-policy-in-force.'],
  // Networks and nodes
  no_network: ['error', 'Add a network with `chatelaine network add`.'],
  nodes_of_unknown_network: ['warning', 'Remove the network from NETWORKS_FILE, or add it with `chatelaine network add`.'], // prettier-ignore
  network_without_nodes: ['error', 'Give its nodes with `chatelaine network add NAME --rpc-url`.'],
  network_down: ['error', 'Check the nodes, their URLs and keys: docs/operate/nodes.md.'],
  network_not_signed: ['error', 'Add the chain id to SIGNER_CHAINS, and restart the signer.'],
  node_down: ['warning', 'Check the node, or remove its URL with `chatelaine network add`.'],
  node_on_other_chain: ['error', 'Correct the URL of the node: docs/operate/networks.md.'],
  node_behind: ['warning', 'Check whether the node is synchronized.'],
  methods_missing: ['error', 'Use a node that supports them: docs/operate/nodes.md#required.'],
  reads_by_number: ['warning', 'Use a node with EIP-1898 to save two calls per read: docs/operate/nodes.md#optional.'],
  finality_missing: ['warning', 'Set a number of blocks with `chatelaine network set NAME --finality`.'],
  traces_missing: ['warning', 'Use a node with traces, or set NATIVE_HISTORY=values: docs/operate/networks.md#native-currency-in-the-history.'], // prettier-ignore
  history_missing: ['warning', 'Use a node with older blocks, or raise --backfill-from of the network: docs/operate/networks.md.'], // prettier-ignore
  bump_before_block: ['warning', 'Set LANE_BUMP_AFTER_SECONDS above the block time.'],
  chain_clock_differs: ['error', 'Synchronize the clock of this machine, for example with chrony.'],
  account_pages_cannot_send: ['warning', 'Set a budget with `chatelaine network set NAME --pages-per-user --pages-per-day`, or offer transfers in an application: docs/operate/gas/overview.md#account-pages.'], // prettier-ignore
  // Running server and its proxy
  server_down: ['warning', 'Start the server, and read its log if it ends.'],
  server_version_differs: ['warning', 'Restart the server, so that it runs the installed release.'],
  server_check_failed: ['error', 'Look up the check in docs/operate/monitoring.md#alerts.'],
  origin_unreachable: ['warning', 'Check DNS, certificate and proxy of the public origin.'],
  forged_address_trusted: ['error', 'Lower TRUST_PROXY to the number of proxies, each of which must append to X-Forwarded-For.'], // prettier-ignore
  proxy_not_trusted: ['warning', 'Set TRUST_PROXY to the number of proxies or their addresses.'],
  // Webhooks
  webhook_disabled: ['warning', 'Repair the endpoint, send a test, then run `chatelaine webhook enable`: docs/build/webhooks.md#when-your-server-is-down.'], // prettier-ignore
  webhook_failing: ['warning', 'Read the last failure with `chatelaine webhook show`, and inform the application.'],
  webhook_secret_unreadable: ['error', 'Put the former keys back into AUTH_KEYS_FILE, or run `chatelaine webhook rotate-secret` and `enable`.'], // prettier-ignore
  webhook_private_hosts: ['warning', 'Remove hosts from WEBHOOK_PRIVATE_HOSTS that are not servers of your own applications.'], // prettier-ignore
  // Machine and backups
  disk_low: ['warning', 'Free space, or enlarge the file system.'],
  disk_full: ['error', 'Free space, or enlarge the file system, before a write fails.'],
  backups_not_checked: ['warning', 'Give the folder of the backups: `chatelaine doctor --backups FOLDER`.'],
  backup_missing: ['error', 'Make a backup with `chatelaine backup`: docs/operate/backup-restore.md.'],
  backup_old: ['warning', 'Check the timer of the backups: docs/operate/backup-restore.md.'],
  backup_incomplete: ['error', 'Make a new backup, and test it with `chatelaine drill`.'],
} as const satisfies Record<string, Fault>

export type FaultCode = keyof typeof FAULTS

/** Returns a finding. @param problem  one sentence, without secrets */
export function finding(code: FaultCode, problem: string): Diagnosis {
  const [severity, action] = FAULTS[code]
  return { code, severity, problem: sentenceOf(problem), action }
}

const sentenceOf = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`

/** Returns the text of an error of our own; other errors may contain addresses with secrets. */
export const ownWords = (error: unknown): string =>
  error instanceof Error && error.constructor === Error && (error as { code?: unknown }).code === undefined
    ? error.message
    : `unexpected error${codeOf(error)}`

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? ` (${code})` : ''
}
