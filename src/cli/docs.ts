import { mkdir, writeFile } from 'node:fs/promises'
import { referencePages } from './reference.ts'

/** `npm run docs`: writes the generated reference pages. A test fails if they are outdated. */
const root = new URL('../../', import.meta.url)
await mkdir(new URL('docs/reference/', root), { recursive: true })
for (const [path, write] of Object.entries(referencePages)) {
  await writeFile(new URL(path, root), await write())
  console.log(path)
}
