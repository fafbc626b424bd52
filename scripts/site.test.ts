import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'

// Plain JavaScript, without types: the site is built without the product's compiler.
const load = (file: string): Promise<unknown> => import(new URL(`../site/${file}`, import.meta.url).href)
const { problemsOf } = (await load('check.mjs')) as { problemsOf: (dist: string, base: string) => string[] }
const { checkSections, pages, textOf } = (await load('pages.mjs')) as {
  checkSections: () => void
  pages: Map<string, string>
  textOf: (file: string) => string
}

test('each document is in one section of the site, and the files that it links to are there', () => {
  checkSections()
  assert.ok(pages.size > 100)
  for (const file of pages.keys()) textOf(file)
})

test('a dead link, a dead anchor and a file of another host are found, in pages, in their Markdown and in the index', async (t) => {
  const dist = await mkdtemp(join(tmpdir(), 'chatelaine-site-'))
  t.after(() => rm(dist, { recursive: true }))
  const write = async (files: Record<string, string>) => {
    for (const [name, text] of Object.entries(files)) {
      await mkdir(dirname(join(dist, name)), { recursive: true })
      await writeFile(join(dist, name), text)
    }
  }
  await write({
    'glossary.html':
      '<h1 id="top">A</h1><a href="/docs/build/">x</a><a href="#top">x</a><a href="https://a.example/">x</a>',
    'glossary.md': '# A\n',
    'build/index.html': '<h2 id="start">B</h2><a href="../glossary.html#top">x</a><script src="/docs/app.js"></script>',
    'how-it-works.html': '',
    'how-it-works.md': '# B\n\n[x](glossary.md#top) `[code](writing.md)`\n',
    'app.js': '',
  })
  assert.deepEqual(problemsOf(dist, '/docs/'), [])
  await write({
    'links.html': '<a href="./gone.html">x</a><a href="/build/">x</a><a href="./build/#end">x</a>',
    'loads.html': '<link rel="stylesheet" href="https://fonts.example/a.css"><img src="//b.example/c.png">',
    'style.css': '@font-face { src: url(https://fonts.example/a.woff2) }',
    'how-it-works.md': '[x](glossary.md#end) [y](writing.md)',
    'llms.txt': '- [x](writing.md): a page',
  })
  assert.deepEqual(problemsOf(dist, '/docs/').toSorted(), [
    'how-it-works.md: glossary.md#end has no such anchor',
    'how-it-works.md: writing.md is not there',
    'links.html: ./build/#end has no such anchor',
    'links.html: ./gone.html is not there',
    'links.html: /build/ is not there',
    'llms.txt: writing.md is not there',
    'loads.html: loads //b.example/c.png',
    'loads.html: loads https://fonts.example/a.css',
    'style.css: loads https://fonts.example/a.woff2',
  ])
})
