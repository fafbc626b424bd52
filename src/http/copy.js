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
for (const time of document.querySelectorAll('time[datetime]'))
  time.textContent = format.format(new Date(time.dateTime))
