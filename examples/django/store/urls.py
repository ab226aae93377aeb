"""The addresses of the store."""

from django.contrib import admin
from django.urls import path

from purchases import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("orders", views.create),
    path("orders/<int:number>", views.show),
    path("orders/<int:number>/invoice", views.write_invoice),
    path("invoices/<str:id>", views.show_invoice),
]
