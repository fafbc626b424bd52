import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { parseAllDocuments } from 'yaml'
import { readCompose, readMount } from '../e2e/containers/compose.ts'
import { configKeys, readConfig } from '../src/config.ts'
import { readSettings } from '../src/signer/settings.ts'

/** compose.yaml, kube.yaml and the Containerfile as texts; e2e/containers.test.ts runs the first. */
const ROOT = join(import.meta.dirname, '..')
const compose = readCompose(join(ROOT, 'compose.yaml'))
const text = (name: string) => readFileSync(join(ROOT, name), 'utf8')
/** Variables of other programs: PostgreSQL's driver, its image, Node.js. */
const FOREIGN = ['PGPASSFILE', 'NODE_OPTIONS', 'POSTGRES_USER', 'POSTGRES_DB', 'POSTGRES_PASSWORD_FILE']
const OURS = ['signer', 'auth', 'api']

type KubeContainer = {
  name: string
  args?: string[]
  command?: string[]
  env: ({ name: string } & ({ value: string } | { valueFrom: { secretKeyRef: { name: string; key: string } } }))[]
  securityContext: {
    /** the database's image has a user of its own */
    runAsUser?: number
    runAsGroup?: number
    readOnlyRootFilesystem: boolean
    allowPrivilegeEscalation: boolean
    capabilities: { drop: string[]; add?: string[] }
  }
  volumeMounts: { name: string; mountPath: string; readOnly?: boolean }[]
}
type KubeSecret = { kind: string; metadata: { name: string }; stringData: Record<string, string> }
type KubePod = {
  kind: string
  metadata: { name: string }
  spec: { containers: KubeContainer[]; initContainers?: KubeContainer[]; volumes: { name: string; persistentVolumeClaim?: { claimName: string } }[] } // prettier-ignore
}

test('every variable of compose.yaml is a setting or known to the program that it is for, and each program accepts its own', () => {
  const known = new Set([...Object.keys(configKeys), ...FOREIGN])
  for (const [name, { environment = {} }] of Object.entries(compose.services))
    assert.deepEqual(Object.keys(environment).filter((key) => !known.has(key)), [], name) // prettier-ignore
  const { api, auth, signer, setup } = compose.services
  assert.equal(readConfig(api!.environment!, 'server').NODE_ENV, 'production')
  assert.equal(readConfig(auth!.environment!, 'auth').NODE_ENV, 'production')
  for (const one of [signer!, setup!]) readSettings(one.environment!, { isDevelopment: false })
})

test('every path of a setting is on a volume of its service, and every volume holds such a path', () => {
  for (const name of ['setup', 'migrate', ...OURS]) {
    const { environment = {}, volumes = [] } = compose.services[name]!
    const mounts = volumes.map(readMount)
    const paths = Object.entries(environment).filter(([, value]) => /^\/(etc|run|var)\//.test(value))
    for (const [key, path] of paths)
      assert.ok(mounts.some((mount) => dirname(path).startsWith(mount.path)), `${name}: ${key} is on no volume`) // prettier-ignore
    // setup.sh makes all of them.
    const made = name === 'setup' ? text('deploy/setup.sh') : ''
    for (const { path } of mounts)
      assert.ok(paths.some(([, value]) => value.startsWith(path)) || made.includes(path), `${name}: nothing uses ${path}`) // prettier-ignore
  }
})

test('the programs are as separate as docs/operate/split-deployment.md says', () => {
  const { api, auth, signer, migrate, setup, database } = compose.services
  for (const [name, service] of Object.entries(compose.services)) {
    assert.equal(service!.read_only, true, name)
    assert.deepEqual(service!.cap_drop, ['ALL'], name)
    assert.ok(service!.tmpfs?.includes('/tmp'), name)
    assert.deepEqual(service!.security_opt, ['no-new-privileges:true'], name)
  }
  const users = [api, auth, signer, migrate].map((service) => service!.user)
  assert.equal(new Set(users).size, 4)
  assert.ok(!users.includes('0:0'))
  for (const service of [signer, setup]) assert.equal(service!.network_mode, 'none')
  const volumesOf = (service: typeof api) => (service!.volumes ?? []).map((mount) => readMount(mount).source)
  for (const [volume, holders] of Object.entries({
    'signer-key': ['signer'],
    'signer-store': ['signer'],
    'auth-secrets': ['auth'],
    'api-secrets': ['api'],
    'owner-secrets': ['migrate'],
    'database-secrets': ['database'],
    'run-signer': ['signer', 'api'],
    'run-signer-auth': ['signer', 'auth'],
    'run-auth': ['auth', 'api'],
  }))
    assert.deepEqual(
      Object.entries({ signer, auth, api, migrate, database })
        .filter(([, service]) => volumesOf(service).includes(volume))
        .map(([name]) => name)
        .toSorted(),
      holders.toSorted(),
      volume,
    )
  for (const secret of ['AUTH_KEYS_FILE', 'PROVIDERS_FILE', 'OPERATOR_TOKEN_FILE', 'SIGNER_AUTH_SOCKET'])
    assert.ok(!(secret in api!.environment!), secret)
  const hosts = [api, auth].map((service) => new URL(service!.environment!.DATABASE_URL!).username)
  assert.deepEqual(hosts, ['chatelaine_api', 'chatelaine_auth'])
  assert.deepEqual(migrate!.command, ['database', 'roles', '--auth', 'chatelaine_auth', '--api', 'chatelaine_api'])
})

test('the pods of podman are the services of compose.yaml: users, rights, settings and volumes', () => {
  const pods = ['deploy/kube.yaml', 'deploy/kube-signer.yaml'].flatMap((file) =>
    parseAllDocuments(text(file)).map((document) => document.toJS() as KubePod),
  )
  // Podman creates a volume that a claim names. A claim as a document of its own would end the second `kube play`.
  assert.deepEqual([...new Set(pods.map(({ kind }) => kind))].toSorted(), ['Pod', 'Secret'])
  const claims = new Map(pods.filter(({ kind }) => kind === 'Pod').flatMap(({ spec }) => spec.volumes).map(({ name, persistentVolumeClaim }) => [name, persistentVolumeClaim?.claimName])) // prettier-ignore
  const containers = pods.filter(({ kind }) => kind === 'Pod').flatMap(({ spec }) => [...(spec.initContainers ?? []), ...spec.containers]) // prettier-ignore
  assert.deepEqual(
    containers.map(({ name }) => name).toSorted(),
    Object.keys(compose.services).filter((name) => name !== 'chain').toSorted(), // prettier-ignore
  )
  const secrets = parseAllDocuments(text('deploy/kube.yaml')).map((document) => document.toJS() as KubeSecret).filter(({ kind }) => kind === 'Secret') // prettier-ignore
  const valueOf = (one: KubeContainer['env'][number]) => {
    if ('value' in one) return one.value
    const { name, key } = one.valueFrom.secretKeyRef
    return secrets.find(({ metadata }) => metadata.name === name)?.stringData[key]
  }
  // In a pod, services reach each other by the loopback interface.
  const local = (value: string) => value.replace(/(@|\/\/)(database|api|chain):/, '$1127.0.0.1:')
  for (const container of containers) {
    const { name } = container
    const service = compose.services[name]!
    const values = Object.entries(service.environment ?? {}).map(([key, value]) => [key, local(String(value))])
    assert.deepEqual(Object.fromEntries(container.env.map((one) => [one.name, valueOf(one)])), Object.fromEntries(values), name) // prettier-ignore
    assert.deepEqual(container.args ?? [], service.command ?? [], name)
    const wanted = (service.volumes ?? []).map(readMount).filter(({ source }) => source !== 'chain' && !source.startsWith('.')) // prettier-ignore
    const inMemory = new Set(service.tmpfs)
    const mounted = container.volumeMounts.filter(({ mountPath }) => !inMemory.has(mountPath) && mountPath !== '/setup')
    assert.deepEqual(
      mounted.map((mount) => ({ source: mount.name, path: mount.mountPath, isReadOnly: mount.readOnly === true })),
      wanted,
      name,
    )
    for (const mount of mounted) assert.equal(claims.get(mount.name), `chatelaine-${mount.name}`)
    for (const path of inMemory)
      assert.ok(
        container.volumeMounts.some(({ mountPath }) => mountPath === path),
        path,
      )
    const { runAsUser, runAsGroup, readOnlyRootFilesystem, allowPrivilegeEscalation, capabilities } = container.securityContext // prettier-ignore
    if (name !== 'database') assert.equal(`${runAsUser}:${runAsGroup}`, service.user)
    assert.deepEqual([readOnlyRootFilesystem, allowPrivilegeEscalation], [true, false])
    assert.deepEqual([capabilities.drop, capabilities.add], [['ALL'], service.cap_add])
  }
  const alone = parseAllDocuments(text('deploy/kube-signer.yaml')).map((one) => (one.toJS() as KubePod).spec.containers.map(({ name }) => name)) // prettier-ignore
  assert.deepEqual(alone, [['signer']])
})

test('no pod has a secret outside of a Secret: neither of an identity provider, nor in the URL of a node', () => {
  const documents = parseAllDocuments(text('deploy/kube.yaml')).map(
    (document) => document.toJS() as KubePod & KubeSecret,
  )
  const { stringData } = documents.find(({ kind }) => kind === 'Secret')!
  assert.ok('clientSecret' in (JSON.parse(stringData['providers.json']!) as object[])[0]!)
  const others = [...documents.filter(({ kind }) => kind !== 'Secret'), ...parseAllDocuments(text('deploy/kube-signer.yaml')).map((one) => one.toJS() as KubePod)] // prettier-ignore
  assert.doesNotMatch(JSON.stringify(others), /clientSecret|ConfigMap|"RPC_URL","value"/)
})

test('the Containerfile copies nothing past the script that tests run, and its version is that of the release', () => {
  const file = text('Containerfile')
  assert.deepEqual([...file.matchAll(/^COPY (.+)$/gm)].map(([, what]) => what!), ['. /source', '--from=chain-tree /image/ /', '--from=tree /image/ /']) // prettier-ignore
  const scripts = [...file.matchAll(/\/(?:source|opt\/chatelaine)\/(deploy\/[\w.-]+)/g)].map(([, name]) => name!)
  assert.deepEqual([...new Set(scripts)].filter((name) => !existsSync(join(ROOT, name))), []) // prettier-ignore
  assert.match(file, /^USER 10002:10002$/m)
  assert.match(file, /^HEALTHCHECK .*healthcheck\.mjs"\]$/m)
  const { version } = JSON.parse(text('package.json')) as { version: string }
  for (const name of OURS) assert.equal(compose.services[name]!.image, `chatelaine:${version}`)
})

test('the build sees the files that image-tree.sh copies, and none into which an operator writes secrets', () => {
  const allowed = text('.dockerignore').split('\n').filter((line) => line.startsWith('!')).map((line) => line.slice(1)) // prettier-ignore
  assert.equal(text('.containerignore'), text('.dockerignore'))
  const isSeen = (name: string) => allowed.some((one) => name === one || name.startsWith(`${one}/`))
  const steps = `${text('Containerfile')}${text('deploy/image-tree.sh')}`
  const needed = [...steps.matchAll(/\bdeploy\/[\w-]+\.(?:sh|mjs)/g)].map(([name]) => name)
  assert.ok(needed.length > 4)
  for (const name of needed) assert.ok(isSeen(name), name)
  for (const name of ['deploy/compose/providers.json', 'deploy/kube.yaml', '.env', 'providers.json'])
    assert.ok(!isSeen(name), name)
})
