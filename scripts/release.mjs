/**
 * `npm run release -- FOLDER`: writes what accompanies the tag of a release. `sbom.cdx.json` lists the production packages
 * (CycloneDX), `notes.txt` is the section of this version in CHANGELOG.md.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const { name, version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))

const [folder, ...more] = process.argv.slice(2)
if (folder === undefined || more.length > 0) {
  console.error('Usage: npm run release -- FOLDER')
  process.exit(1)
}
mkdirSync(folder, { recursive: true })
writeFileSync(join(folder, 'sbom.cdx.json'), `${JSON.stringify(readSbom(), null, 2)}\n`)
writeFileSync(join(folder, 'notes.txt'), readNotes())
console.log(`${folder}: sbom.cdx.json, notes.txt of version ${version}`)

/**
 * Runs `npm sbom` on the production half of the lock file. With `--omit dev` on the whole of it, npm 11 leaves out packages
 * that tools need as well.
 */
function readSbom() {
  const half = mkdtempSync(join(tmpdir(), 'chatelaine-release-'))
  try {
    const { devDependencies: _, ...manifest } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
    delete lock.packages[''].devDependencies
    lock.packages = Object.fromEntries(Object.entries(lock.packages).filter(([, { dev }]) => dev !== true))
    writeFileSync(join(half, 'package.json'), JSON.stringify(manifest))
    writeFileSync(join(half, 'package-lock.json'), JSON.stringify(lock))
    const words = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only', '--sbom-type', 'application']
    const { status, stdout, stderr } = spawnSync('npm', words, {
      cwd: half,
      encoding: 'utf8',
      maxBuffer: 64 * 1_048_576,
    })
    if (status !== 0) throw new Error(`npm sbom ended with ${status}: ${stderr}`)
    const sbom = JSON.parse(stdout)
    // npm takes the name of the folder.
    sbom.metadata.component.name = name
    return sbom
  } finally {
    rmSync(half, { recursive: true, force: true })
  }
}

function readNotes() {
  const sections = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8').split(/^## /m)
  const mine = sections.find((section) => section.split('\n', 1)[0].includes(version))
  if (mine === undefined) throw new Error(`CHANGELOG.md has no section of version ${version}.`)
  return `# Chatelaine ${version}\n${mine.slice(mine.indexOf('\n'))}`
}
