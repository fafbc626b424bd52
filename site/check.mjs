/**
 * Checks the built site: every link and every anchor leads somewhere, in the pages and in their Markdown, and nothing is
 * loaded from another host.
 */
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { join, posix } from 'node:path'

/** @returns what is wrong with the site in this folder, a line each */
export function problemsOf(dist, base = '/') {
  const files = globSync('**/*.{html,md,txt,css}', { cwd: dist }).map((file) => file.replaceAll('\\', '/'))
  const texts = new Map(files.map((file) => [file, readFileSync(join(dist, file), 'utf8')]))
  const anchors = new Map()
  for (const [file, text] of texts)
    if (file.endsWith('.html'))
      anchors.set(file, new Set([...text.matchAll(/\s(?:id|name)="([^"]+)"/g)].map(([, id]) => id)))

  const problems = new Set()
  for (const [file, text] of texts) {
    for (const url of loadsOf(file, text)) {
      if (/^(?:[a-z]+:)?\/\//i.test(url)) problems.add(`${file}: loads ${url}`)
      else if (!url.startsWith('data:')) follow(file, url)
    }
    for (const url of linksOf(file, text)) if (!/^(?:[a-z]+:|\/\/)/i.test(url)) follow(file, url)
  }
  return [...problems]

  function follow(file, url) {
    const [path, anchor] = decodeURI(url).replaceAll('&amp;', '&').split('#')
    const asked = path.split('?')[0]
    const target = asked === '' ? file : pathOf(file, asked)
    if (target === undefined || !existsSync(join(dist, target))) problems.add(`${file}: ${url} is not there`)
    else if (anchor !== undefined && anchor !== '') {
      const page = target.replace(/\.md$/, '.html')
      if (!anchors.get(page)?.has(anchor)) problems.add(`${file}: ${url} has no such anchor`)
    }
  }

  /** @returns the file that a web server sends for this path, or undefined outside the site */
  function pathOf(file, path) {
    if (path.startsWith('/') && !path.startsWith(base)) return undefined
    const whole = path.startsWith('/') ? path.slice(base.length) : posix.join(posix.dirname(file), path)
    if (whole.startsWith('..')) return undefined
    const isFolder = whole === '' || whole === '.' || whole.endsWith('/')
    const target = isFolder ? posix.join(whole, 'index.html') : whole
    return existsSync(join(dist, target)) && statSync(join(dist, target)).isDirectory() ? undefined : target
  }
}

/** What a browser loads by itself. */
function loadsOf(file, text) {
  if (file.endsWith('.css')) return [...text.matchAll(/url\(["']?([^"')]+)/g)].map(([, url]) => url)
  if (!file.endsWith('.html')) return []
  return [
    ...text.matchAll(/<(?:script|img|source|iframe|video|audio)\b[^>]*?\ssrc="([^"]+)"/g),
    ...text.matchAll(/<link\b[^>]*?\shref="([^"]+)"/g),
  ].map(([, url]) => url)
}

const CODE = /^ *```[\s\S]*?^ *```|`[^`\n]*`(?!\]\()/gm

function linksOf(file, text) {
  if (file.endsWith('.html')) return [...text.matchAll(/<a\b[^>]*?\shref="([^"]*)"/g)].map(([, url]) => url)
  if (!file.endsWith('.md') && file !== 'llms.txt') return []
  return [...text.replaceAll(CODE, '').matchAll(/\]\(([^)\s]+)\)/g)].map(([, url]) => url)
}
