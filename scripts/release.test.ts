// tier: default, because npm reads the lock file only
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

const ROOT = join(import.meta.dirname, '..')
const text = (path: string) => readFileSync(path, 'utf8')

type Component = { type: string; name: string; version: string; purl: string; hashes?: { alg: string }[] }

test('a release comes with a list of every production package and no other, and with the notes of its version', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-release-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'scripts/release.mjs'), folder], { encoding: 'utf8' }) // prettier-ignore
  assert.equal(status, 0, stderr)

  const { packages } = JSON.parse(text(join(ROOT, 'package-lock.json'))) as {
    packages: Record<string, { version: string; dev?: boolean; link?: boolean; devOptional?: boolean }>
  }
  const wanted = Object.entries(packages)
    .filter(
      ([path, { dev = false, devOptional = false, link = false }]) =>
        path.startsWith('node_modules/') && !dev && !devOptional && !link,
    ) // prettier-ignore
    .map(
      ([path, { version }]) => `${path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)}@${version}`,
    )
  const sbom = JSON.parse(text(join(folder, 'sbom.cdx.json'))) as {
    bomFormat: string
    specVersion: string
    metadata: { component: { name: string; version: string } }
    components: Component[]
    dependencies: { ref: string }[]
  }
  assert.deepEqual([sbom.bomFormat, sbom.specVersion], ['CycloneDX', '1.5'])
  const { name, version } = JSON.parse(text(join(ROOT, 'package.json'))) as { name: string; version: string }
  assert.deepEqual([sbom.metadata.component.name, sbom.metadata.component.version], [name, version])
  const listed = sbom.components.map((one) => `${one.name}@${one.version}`)
  assert.deepEqual([...new Set(listed)].toSorted(), [...new Set(wanted)].toSorted())
  assert.ok(listed.some((one) => one.startsWith('pkcs11js@')))
  for (const { type, purl, hashes } of sbom.components) {
    assert.equal(type, 'library')
    assert.match(purl, /^pkg:npm\/(%40[\w.-]+\/)?[\w.-]+@\d/)
    assert.ok(
      hashes?.some(({ alg }) => alg === 'SHA-512'),
      purl,
    )
  }
  assert.equal(sbom.dependencies.length, new Set(sbom.dependencies.map(({ ref }) => ref)).size)

  const notes = text(join(folder, 'notes.txt'))
  assert.ok(notes.startsWith(`# Chatelaine ${version}\n`))
  const ofChangelog = text(join(ROOT, 'CHANGELOG.md'))
  for (const line of notes.split('\n').slice(1)) assert.ok(ofChangelog.includes(line))
  assert.match(notes, /^### Added$/m)
  assert.match(notes, /^### Upgrade steps$/m)
})
