import { HOME, isGenerated, pages, repository, sidebar, slugOf, urlOf, version } from '../pages.mjs'

const files = new Map([...pages].map(([file, path]) => [path, file]))

export default {
  title: HOME.title,
  description: HOME.says,
  base: process.env.SITE_BASE || '/',
  // Without an icon a browser asks for one that is not there.
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  srcDir: 'pages',
  outDir: 'dist',
  cacheDir: 'node_modules/.cache/vitepress',
  // Examples name servers on the reader's machine.
  ignoreDeadLinks: 'localhostLinks',
  markdown: { anchor: { slugify: slugOf }, languageAlias: { caddy: 'nginx' } },
  vite: { build: { chunkSizeWarningLimit: 10_000 } },
  transformPageData(page) {
    const file = files.get(page.relativePath)
    if (file !== undefined && repository !== undefined) page.frontmatter.source = `${repository}/${file}`
    // Their tables need the width.
    if (file !== undefined && isGenerated(file)) page.frontmatter.aside = false
    const head = ['link', { rel: 'alternate', type: 'text/markdown', href: page.relativePath.split('/').at(-1) }]
    page.frontmatter.head = [...(page.frontmatter.head ?? []), head]
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: { level: [2, 3] },
    nav: [
      { text: 'Start', link: urlOf('README.md') },
      { text: 'Build', link: urlOf('docs/build/README.md'), activeMatch: '^/build/' },
      { text: 'Operate', link: urlOf('docs/operate/README.md'), activeMatch: '^/operate/' },
      {
        text: 'Security',
        link: urlOf('SECURITY.md'),
        activeMatch: '^/(security|signer/|evidence/|reference/(signing-log|gas-contracts))',
      },
      {
        text: 'Reference',
        link: urlOf('docs/reference/configuration.md'),
        activeMatch: '^/reference/(configuration|commands|errors|events|metrics|key-file-format)',
      },
      { text: version, link: urlOf('CHANGELOG.md') },
    ],
    sidebar: sidebar(),
    ...(repository === undefined
      ? {}
      : { editLink: { text: 'Source of this page', pattern: ({ frontmatter }) => frontmatter.source } }),
  },
}
