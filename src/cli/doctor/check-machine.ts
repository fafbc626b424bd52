import { readdir, readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Diagnosis } from '../../findings.ts'
import { FORMAT, type SnapshotRecord } from '../../snapshot/manifest.ts'
import { networksFileOf } from '../database.ts'
import type { Examined } from './patient.ts'
import { finding } from './faults.ts'

const GIGABYTE = 1_073_741_824
const DAY_MS = 86_400_000
/** Age at which a backup is old: a daily one that was missed twice. */
const MAX_BACKUP_MS = 2 * DAY_MS

/** Checks the free space of each file system that the program writes to. */
export async function checkDisk({ config, space }: Pick<Examined, 'config' | 'space'>): Promise<Diagnosis[]> {
  const { NODE_ENV, DATA_DIR, AUTH_KEYS_FILE } = config
  const paths = {
    DATA_DIR: NODE_ENV === 'production' ? undefined : DATA_DIR,
    NETWORKS_FILE: dirname(networksFileOf(config)),
    AUTH_KEYS_FILE: AUTH_KEYS_FILE === undefined ? undefined : dirname(AUTH_KEYS_FILE),
  }
  const found = await Promise.all(
    Object.entries(paths).map(async ([name, path]) => {
      // A folder that is missing has its own finding, or is created at the first start.
      const left = path === undefined ? null : await space(path).catch(() => null)
      return left === null ? [] : spaceFindings(name, left)
    }),
  )
  return found.flat()
}

function spaceFindings(name: string, { free, total }: { free: number; total: number }): Diagnosis[] {
  if (free >= Math.min(GIGABYTE, total / 20)) return []
  const left = `the file system of ${name} has ${Math.floor(free / 1_048_576)} MiB free`
  return [finding(free < Math.min(GIGABYTE / 8, total / 100) ? 'disk_full' : 'disk_low', left)]
}

/** Checks age and completeness of the newest backup of each folder, by the record beside it. */
export async function checkBackups({ config, clock, backups }: Examined): Promise<Diagnosis[]> {
  if (config.NODE_ENV !== 'production') return []
  if (backups.length === 0) return [finding('backups_not_checked', 'the age of the backups is unknown')]
  const found = await Promise.all(backups.map((folder) => checkBackup(folder, clock.wall())))
  return found.flat()
}

async function checkBackup(folder: string, now: number): Promise<Diagnosis[]> {
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith('.json'))
  const records = (await Promise.all(names.map((name) => readRecord(join(folder, name))))).flat()
  const newest = records.toSorted((one, other) => Date.parse(other.at) - Date.parse(one.at))[0]
  if (newest === undefined) return [finding('backup_missing', `there is no backup in ${folder}`)]
  const ageMs = now - Date.parse(newest.at)
  const size = await stat(newest.path).then(
    (one) => one.size,
    () => null,
  )
  return [
    ...(ageMs > MAX_BACKUP_MS ? [finding('backup_old', `the newest backup in ${folder} is ${Math.floor(ageMs / DAY_MS)} days old`)] : []), // prettier-ignore
    ...(size !== newest.bytes ? [finding('backup_incomplete', `the newest backup in ${folder} is missing or has another size than its record`)] : []), // prettier-ignore
  ]
}

async function readRecord(path: string): Promise<(Pick<SnapshotRecord, 'at' | 'bytes'> & { path: string })[]> {
  try {
    const { format, at, bytes } = JSON.parse(await readFile(path, 'utf8')) as Partial<SnapshotRecord>
    if (format !== FORMAT || typeof bytes !== 'number' || Number.isNaN(Date.parse(at ?? ''))) return []
    return [{ at: at!, bytes, path: path.slice(0, -'.json'.length) }]
  } catch {
    return []
  }
}
