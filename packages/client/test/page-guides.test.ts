// tier: all, because it starts the type checker
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))

test('the examples of the guides to pages have no type error', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-guides-'))
  t.after(async () => rm(folder, { recursive: true }))
  const files = { browser: 'ts', react: 'tsx', server: 'ts' }
  for (const [name, type] of Object.entries(files)) {
    const text = await readFile(join(root, `docs/build/client/${name}.md`), 'utf8')
    const blocks = [...text.matchAll(new RegExp(`^\`\`\`${type}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
      ([, block]) => block!,
    )
    assert.equal(blocks.length, { browser: 3, react: 1, server: 4 }[name])
    await writeFile(join(folder, `${name}.${type}`), blocks.join('\n'))
  }
  const source = join(root, 'packages/client/src')
  const modules = join(root, 'node_modules')
  const config = {
    extends: join(root, 'packages/client/tsconfig.json'),
    compilerOptions: {
      noEmit: true,
      typeRoots: [join(modules, '@types')],
      paths: {
        '@chatelaine/client': [`${source}/index.ts`],
        '@chatelaine/client/*': [`${source}/*/index.ts`],
      },
    },
    include: [folder],
  }
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
  await symlink(modules, join(folder, 'node_modules'))
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
  const { status, stdout } = spawnSync(process.execPath, [join(modules, 'typescript/bin/tsc'), '-p', folder], {
    encoding: 'utf8',
  })
  assert.equal(stdout, '')
  assert.equal(status, 0)
})
