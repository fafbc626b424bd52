// The one script of the pages for people. Without it the text is selected by hand, and the button stays hidden.
for (const button of document.querySelectorAll('button[data-copies]')) {
  const field = document.getElementById(button.dataset.copies)
  if (field === null || navigator.clipboard === undefined) continue
  button.hidden = false
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(field.value)
    button.textContent = button.dataset.done
  })
}

// Times are written in UTC, and here in the zone of whoever reads them, with its name.
const { lang } = document.documentElement
const format = new Intl.DateTimeFormat(lang === 'en' ? 'en-GB' : lang, {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  timeZoneName: 'short',
})
function localTimes(within) {
  for (const time of within.querySelectorAll('time[datetime]'))
    time.textContent = format.format(new Date(time.dateTime))
}
localTimes(document)

// A page with something pending requests itself and replaces the parts that changed. Without this script the browser
// reloads it (`meta refresh`).
const MAX_SECONDS = 60
const main = document.querySelector('main[data-live]')
if (main !== null) lookAgain(Number(main.dataset.live))

function lookAgain(seconds) {
  setTimeout(async () => {
    if (document.hidden) return lookAgain(seconds)
    const next = await renew().catch(() => Math.min(MAX_SECONDS, seconds * 2))
    if (next !== null) lookAgain(next)
  }, seconds * 1_000)
}

/** Updates the page. Returns the seconds until the next time; null: nothing is pending any more. */
async function renew() {
  const answer = await fetch(location.href, { headers: { accept: 'text/html' }, redirect: 'error' })
  if (!answer.ok) throw new Error(String(answer.status))
  const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html')
  localTimes(fresh)
  for (const part of document.querySelectorAll('[data-part]')) {
    const now = fresh.querySelector(`[data-part="${part.dataset.part}"]`)
    if (now !== null && now.innerHTML !== part.innerHTML) part.innerHTML = now.innerHTML
  }
  const { live } = fresh.querySelector('main').dataset
  return live === undefined ? null : Number(live)
}
