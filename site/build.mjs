/**
 * Builds the documentation as a static site in site/dist: `npm run site`. Copies the pages to site/pages with their
 * links changed, runs VitePress over them, adds every page as Markdown and the indexes for language models, and checks
 * all links and anchors.
 */
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vitepress'
import { problemsOf } from './check.mjs'
import { assets, checkSections, HOME, inOrder, pages, textOf, ROOT, titleOf, urlOf } from './pages.mjs'

const SITE = dirname(fileURLToPath(import.meta.url))
const DIST = join(SITE, 'dist')
const PAGES = join(SITE, 'pages')

function write(folder, path, text) {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}

/** The home page, whose front matter VitePress lays out. JSON is YAML. */
function homePage() {
  const { title, text, says, doors } = HOME
  const frontmatter = {
    layout: 'home',
    title,
    titleTemplate: text,
    hero: {
      name: title,
      text,
      tagline: says,
      actions: [
        { theme: 'brand', text: 'Quick start', link: `${urlOf('README.md')}#quick-start` },
        { theme: 'alt', text: 'How it works', link: urlOf('docs/how-it-works.md') },
      ],
    },
    features: doors.map(({ to, ...door }) => ({ ...door, link: urlOf(to) })),
  }
  return `---\n${JSON.stringify(frontmatter)}\n---\n`
}

/** The home page as Markdown, and at the same time the index for language models: a line for each page. */
function index() {
  const lines = inOrder().flatMap(({ text, files }) => [
    `\n## ${text}\n`,
    ...files.map((file) => `- [${titleOf(file)}](${pages.get(file)}): ${firstSentenceOf(file)}`),
  ])
  return `# ${HOME.title}\n\n> ${HOME.says}\n${lines.join('\n')}\n`
}

/** The first sentence of a page's first paragraph, as plain text on one line. */
function firstSentenceOf(file) {
  const paragraphs = textOf(file)
    .replaceAll(/<!--[\s\S]*?-->/g, '')
    .split(/\n\s*\n/)
    .map((one) => one.trim())
  const first = paragraphs.find((one) => /^[\p{L}*`[]/u.test(one) && !one.startsWith('```')) ?? ''
  const plain = first.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/\*\*|\s*\n\s*/g, (part) => (part === '**' ? '' : ' ')) // prettier-ignore
  return /^.{25,}?[.:](?=\s|$)/.exec(plain)?.[0].replace(/:$/, '.') ?? plain
}

checkSections()
const texts = new Map([...pages].map(([file, path]) => [path, textOf(file)]))
rmSync(PAGES, { recursive: true, force: true })
for (const [path, text] of texts) write(PAGES, path, text)
write(PAGES, 'index.md', homePage())
// Ends with an error at a link to a page that is not there.

await build(SITE)

for (const [path, text] of texts) write(DIST, path, text)
for (const [file, path] of assets) {
  mkdirSync(dirname(join(DIST, path)), { recursive: true })
  copyFileSync(join(ROOT, file), join(DIST, path))
}
write(DIST, 'index.md', index())
write(DIST, 'llms.txt', index())
const all = inOrder().flatMap(({ files }) => files.map((file) => texts.get(pages.get(file))))
write(DIST, 'llms-full.txt', all.join('\n\n---\n\n'))

const problems = problemsOf(DIST, process.env.SITE_BASE || '/')
for (const problem of problems) console.error(problem)
console.log(problems.length === 0 ? `${pages.size + 1} pages in site/dist.` : `${problems.length} problems.`)
process.exitCode = problems.length === 0 ? 0 : 1
